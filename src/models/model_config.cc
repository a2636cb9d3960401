#include "models/model_config.h"

#include <fmt/format.h>

#include <string_view>

#include "base/file.h"
#include "models/config_reader.h"
#include "models/family.h"

namespace unspool {
namespace {

// Far above any published model, and low enough that no product of them overflows.
constexpr int64_t kMaxVocabSize = int64_t{1} << 22;
constexpr int64_t kMaxHiddenSize = int64_t{1} << 17;
constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 512;  // what attention has room for
constexpr int64_t kMaxPositions = int64_t{1} << 27;

Result<Family> read_family(const ConfigReader& config) {
  std::string supported;
  for (const Family& family : families()) {
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", family.architecture);
  }
  const std::optional<JsonValue> names = config.find("architectures");
  if (!names) return config.error("architectures is missing; supported: " + supported);
  if (!names->is_array()) return config.expected("architectures", "a list of names", *names);
  std::string unsupported;
  for (const JsonValue& element : names->elements()) {
    const std::optional<std::string_view> name = element.as_string();
    if (!name) return config.expected("architectures", "a list of names", *names);
    if (const Family* family = find_family(*name)) return *family;
    unsupported += fmt::format("{}{}", unsupported.empty() ? "" : ", ", *name);
  }
  return config.error(fmt::format("unsupported architecture {}; supported: {}",
                                  unsupported.empty() ? "(none)" : unsupported, supported));
}

Status refuse_unsupported(const ConfigReader& config, const Family& family) {
  if (const std::optional<JsonValue> quantization = config.find("quantization_config")) {
    const std::string method = (*quantization)["quant_method"].dump();
    return config.error(
        fmt::format("quantization_config: quantised checkpoints are not supported (quant_method {})", method));
  }
  UNSPOOL_ASSIGN(const std::optional<std::string> activation, config.string(family.activation_key));
  if (activation && *activation != family.activation) {
    return config.error(
        fmt::format("unsupported {} \"{}\"; supported: {}", family.activation_key, *activation, family.activation));
  }
  return {};
}

Status read_sizes(const ConfigReader& config, const Family& family, ModelConfig& model) {
  UNSPOOL_ASSIGN(model.vocab_size, config.required_integer("vocab_size", 1, kMaxVocabSize));
  UNSPOOL_ASSIGN(model.hidden_size, config.required_integer("hidden_size", 1, kMaxHiddenSize));
  UNSPOOL_ASSIGN(model.intermediate_size, config.required_integer("intermediate_size", 1, kMaxIntermediateSize));
  UNSPOOL_ASSIGN(model.num_hidden_layers, config.required_integer("num_hidden_layers", 1, kMaxLayers));
  UNSPOOL_ASSIGN(model.max_position_embeddings, config.required_integer("max_position_embeddings", 1, kMaxPositions));
  UNSPOOL_ASSIGN(model.num_attention_heads, config.required_integer("num_attention_heads", 1, kMaxHeads));
  UNSPOOL_ASSIGN(const std::optional<int64_t> kv_heads, config.integer("num_key_value_heads", 1, kMaxHeads));
  const bool by_default = !config.has("num_key_value_heads") && family.default_kv_heads.has_value();
  model.num_key_value_heads = by_default ? *family.default_kv_heads : kv_heads.value_or(model.num_attention_heads);
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    return config.error(fmt::format("num_key_value_heads: expected a divisor of num_attention_heads ({}), got {}",
                                    model.num_attention_heads, model.num_key_value_heads));
  }
  UNSPOOL_ASSIGN(const std::optional<int64_t> head_dim, config.integer("head_dim", 1, kMaxHeadDim));
  if (head_dim || family.default_head_dim) {
    model.head_dim = head_dim ? *head_dim : *family.default_head_dim;
  } else if (model.hidden_size % model.num_attention_heads == 0) {
    model.head_dim = model.hidden_size / model.num_attention_heads;
  } else {
    return config.error(
        fmt::format("hidden_size: expected a multiple of num_attention_heads ({}) where head_dim is not "
                    "given, got {}",
                    model.num_attention_heads, model.hidden_size));
  }
  if (model.head_dim % 2 != 0 || model.head_dim > kMaxHeadDim) {
    return config.error(
        fmt::format("head_dim: expected an even integer from 2 to {}, got {}", kMaxHeadDim, model.head_dim));
  }
  UNSPOOL_ASSIGN(const std::optional<double> epsilon, config.number("rms_norm_eps", 0.0, 1.0, /*above_min=*/true));
  model.rms_norm_eps = epsilon.value_or(family.default_rms_norm_eps);
  return {};
}

Status read_rotations(const ConfigReader& config, const Family& family, ModelConfig& model) {
  const auto sized = [&](RopeFamily rope) {
    rope.head_dim = model.head_dim;
    rope.max_position_embeddings = model.max_position_embeddings;
    return rope;
  };
  UNSPOOL_ASSIGN(model.rope, read_rope_config(config, sized(family.rope)));
  if (family.local_rope) {
    UNSPOOL_ASSIGN(model.local_rope, read_rope_config(config, sized(*family.local_rope)));
  }
  return {};
}

Status read_dtype(const ConfigReader& config, ModelConfig& model) {
  for (const std::string_view key : {"dtype", "torch_dtype"}) {  // the newer spelling first
    UNSPOOL_ASSIGN(const std::optional<std::string> name, config.string(key));
    if (!name) continue;
    model.dtype = parse_torch_dtype(*name);
    if (!model.dtype || !is_float_weight(*model.dtype)) {
      return config.error(fmt::format("unsupported {} \"{}\"; supported: float32, bfloat16, float16", key, *name));
    }
    return {};
  }
  return {};
}

}  // namespace

Result<ModelConfig> parse_model_config(const JsonValue& json, const JsonValue* overrides) {
  if (!json.is_object()) return invalid_argument("config.json: expected an object");
  if (overrides != nullptr && !overrides->is_object()) return invalid_argument("hf-overrides: expected an object");
  const ConfigReader config("config.json", json, overrides);
  ModelConfig model;
  UNSPOOL_ASSIGN(const Family family, read_family(config));
  model.architecture = family.architecture;
  UNSPOOL_TRY(refuse_unsupported(config, family));
  UNSPOOL_TRY(read_sizes(config, family, model));
  model.layers.resize(static_cast<size_t>(model.num_hidden_layers));
  model.tie_word_embeddings = family.ties_by_default;
  UNSPOOL_TRY(config.flag("tie_word_embeddings", model.tie_word_embeddings));
  UNSPOOL_TRY(family.read_switches(config, model));
  UNSPOOL_TRY(read_rotations(config, family, model));
  UNSPOOL_TRY(read_dtype(config, model));
  UNSPOOL_ASSIGN(model.bos_token_id, config.token_id("bos_token_id", model.vocab_size));
  UNSPOOL_ASSIGN(model.eos_token_ids, config.token_ids("eos_token_id", model.vocab_size));
  UNSPOOL_ASSIGN(model.pad_token_id, config.token_id("pad_token_id", model.vocab_size));
  return model;
}

Result<ModelConfig> load_model_config(const std::string& dir, const JsonValue* overrides) {
  const std::string path = dir + "/config.json";
  UNSPOOL_ASSIGN(const std::string text, read_file(path));
  auto document = JsonDocument::parse(text);
  if (!document.ok()) return invalid_argument(path + ": " + document.error().message);
  return parse_model_config(document->root(), overrides);
}

}  // namespace unspool
