#include "server/model_defaults.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/generation_config.h"
#include "server/chat_setup.h"
#include "server/tokenizer_files.h"
#include "server/version.h"

namespace unspool {
namespace {

// FNV-1a: stable between builds, and nothing here needs more.
uint64_t hash(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

std::string generation_config_directory(const ServeOptions& options) {
  return options.generation_config == "auto" || options.generation_config == "vllm" ? options.model
                                                                                    : options.generation_config;
}

void take_defaults(const GenerationConfig& from, DefaultSampling& to) {
  const auto take = [](const auto& value, auto& target) {
    if (value) target = value;
  };
  for_each_default(from, to, take);
  take(from.max_new_tokens, to.max_tokens);
}

// auto: the model's, whose max_new_tokens is only a default; a directory's is a cap as well, and so is an override's.
Result<DefaultSampling> default_sampling(const ServeOptions& options, const GenerationConfig& file,
                                         int64_t vocab_size) {
  DefaultSampling defaults;
  if (options.generation_config != "vllm") take_defaults(file, defaults);
  if (options.generation_config != "vllm" && options.generation_config != "auto")
    defaults.hard_max_tokens = defaults.max_tokens;
  UNSPOOL_ASSIGN(const JsonDocument document, JsonDocument::parse(options.override_generation_config));
  auto overrides = parse_generation_config(document.root(), vocab_size);
  if (!overrides.ok()) return invalid_argument("--override-generation-config: " + overrides.error().message);
  take_defaults(*overrides, defaults);
  if (overrides->max_new_tokens) defaults.hard_max_tokens = overrides->max_new_tokens;
  return defaults;
}

}  // namespace

std::optional<std::string> system_fingerprint(const ServeOptions& options) {
  if (options.fingerprint_mode == "none") return std::nullopt;
  if (options.fingerprint_mode == "custom") return options.fingerprint_value;
  return fmt::format("vllm-{}-{:08x}", kReferenceVersion, static_cast<uint32_t>(hash(options.given)));
}

Result<ServingConfig> protocol_config(const ServeOptions& options, const ModelConfig& model, int max_model_len) {
  UNSPOOL_ASSIGN(const GenerationConfig generation,
                 load_generation_config(generation_config_directory(options), model.vocab_size));
  UNSPOOL_ASSIGN(LoadedTokenizer loaded, load_tokenizer(options));
  ServingConfig config;
  UNSPOOL_ASSIGN(config.chat, load_chat_config(options.chat, loaded.tokenizer ? loaded.directory : options.model,
                                               loaded.tokenizer.get()));
  config.served_model_names = options.served_model_names;
  config.model_root = options.model;
  config.max_model_len = max_model_len;
  config.vocab_size = static_cast<int>(model.vocab_size);
  config.max_num_seqs = options.max_num_seqs;
  config.tokenizer = std::move(loaded.tokenizer);
  config.eos_token_id = loaded.eos;
  // Where generation_config.json names none, config.json's do; the tokenizer's own is the primary one.
  const auto& eos_ids = generation.eos_token_ids.empty() ? model.eos_token_ids : generation.eos_token_ids;
  for (const int64_t id : eos_ids) {
    if (id != loaded.eos) config.extra_eos_token_ids.push_back(static_cast<int32_t>(id));
  }
  UNSPOOL_ASSIGN(config.defaults, default_sampling(options, generation, model.vocab_size));
  config.max_logprobs = options.max_logprobs;
  config.logprobs_mode = options.logprobs_mode;
  config.stream_interval = options.stream_interval;
  config.tokens_only = options.tokens_only;
  config.return_tokens_as_token_ids = options.return_tokens_as_token_ids;
  config.enable_prompt_tokens_details = options.enable_prompt_tokens_details;
  config.enable_force_include_usage = options.enable_force_include_usage;
  config.enable_per_request_metrics = options.enable_per_request_metrics;
  config.system_fingerprint = system_fingerprint(options);
  config.max_stop_strings = options.max_stop_strings;
  config.max_completion_prompts = options.max_completion_prompts;
  config.max_n = options.max_n;
  config.max_bad_words = options.max_bad_words;
  config.skip_model_name_validation = options.skip_model_name_validation;
  return config;
}

}  // namespace unspool
