#include "models/rope_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "backend/math.h"
#include "base/log.h"

namespace unspool {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 27;
constexpr std::string_view kNewBlock = "rope_parameters";
constexpr std::string_view kOldBlock = "rope_scaling";
constexpr std::string_view kOriginal = "original_max_position_embeddings";

struct TypeName {
  std::string_view name;
  RopeType type;
};
constexpr std::array kTypes = {TypeName{"default", RopeType::kDefault},   TypeName{"linear", RopeType::kLinear},
                               TypeName{"dynamic", RopeType::kDynamic},   TypeName{"yarn", RopeType::kYarn},
                               TypeName{"longrope", RopeType::kLongRope}, TypeName{"llama3", RopeType::kLlama3}};

// The object that holds the parameters, under one of its two names, or neither.
struct RopeBlock {
  std::string_view root;  // its key at the top level
  std::string key;        // as errors show it
  JsonValue object;
};

Result<RopeBlock> find_block(const ConfigReader& config) {
  const std::optional<JsonValue> new_block = config.find(kNewBlock);
  const std::optional<JsonValue> old_block = config.find(kOldBlock);
  bool is_new = new_block.has_value();
  if (new_block && old_block && new_block->dump() != old_block->dump()) {
    is_new = config.is_overridden(kNewBlock);
    if (is_new == config.is_overridden(kOldBlock)) {
      return config.error("rope_parameters and rope_scaling are both given and differ: remove one of them");
    }
  }
  const std::string_view root = is_new ? kNewBlock : kOldBlock;
  const JsonValue object = (is_new ? new_block : old_block).value_or(JsonValue());
  if (!object.is_null() && !object.is_object()) return config.expected(root, "an object", object);
  return RopeBlock{root, std::string(root), object};
}

// The parameters of the layers that are asked for: the block, or the object within it that has their type's name.
Result<RopeBlock> select_layers(const ConfigReader& config, const RopeFamily& family, RopeBlock block) {
  std::string_view by_type;  // a key of an object
  for (const auto& [key, value] : block.object.members())
    if (by_type.empty() && value.is_object() && key.ends_with("_attention")) by_type = key;
  if (by_type.empty()) {
    if (!family.layer_type.empty() && family.layer_type != "full_attention") block.object = JsonValue();
    return block;
  }
  if (family.layer_type.empty()) {
    return config.error(
        fmt::format("{}.{}: this architecture has one rotation, and no parameters per layer type", block.key, by_type));
  }
  for (const auto& [key, value] : block.object.members()) {
    if (key != "full_attention" && key != "sliding_attention")
      return config.error(fmt::format("{}.{}: expected full_attention and sliding_attention alone", block.key, key));
    if (!value.is_null() && !value.is_object())
      return config.expected(fmt::format("{}.{}", block.key, key), "an object", value);
  }
  return RopeBlock{block.root, fmt::format("{}.{}", block.key, family.layer_type), block.object[family.layer_type]};
}

// The reader of a rotation's fields, at the top level and within the block.
class RopeReader {
 public:
  RopeReader(const ConfigReader& config, const RopeFamily& family, const RopeBlock& block)
      : config_(config), family_(family), block_(block), inner_(config.nested(block.key, block.object)) {}

  Result<RopeConfig> read() {
    RopeConfig rope;
    rope.max_position_embeddings = family_.max_position_embeddings;
    rope.context_is_scaled = family_.context_is_scaled;
    UNSPOOL_ASSIGN(rope.type, type());
    UNSPOOL_ASSIGN(const std::optional<double> theta, either_place(family_.theta_key, "rope_theta", 1.0, kMaxTheta));
    rope.theta = theta.value_or(family_.default_theta);
    UNSPOOL_TRY(read_rotary_dim(rope));
    switch (rope.type) {
      case RopeType::kDefault:
        break;
      case RopeType::kLinear:
      case RopeType::kDynamic:
        UNSPOOL_TRY(read_scaled(rope));
        break;
      case RopeType::kYarn:
        UNSPOOL_TRY(read_yarn(rope));
        break;
      case RopeType::kLongRope:
        UNSPOOL_TRY(read_longrope(rope));
        break;
      case RopeType::kLlama3:
        UNSPOOL_TRY(read_llama3(rope));
        break;
    }
    warn_of_unknown_keys(rope.type);
    return rope;
  }

 private:
  Error missing(std::string_view key) const { return config_.error(fmt::format("{}.{} is missing", block_.key, key)); }

  // A number that may stand at the top level or within the block.
  Result<std::optional<double>> either_place(std::string_view top_key, std::string_view key, double min, double max,
                                             bool above_min = false) const {
    UNSPOOL_ASSIGN(const std::optional<double> top, config_.number(top_key, min, max, above_min));
    UNSPOOL_ASSIGN(const std::optional<double> within, inner_.number(key, min, max, above_min));
    if (!top || !within || *top == *within) return top ? top : within;
    if (config_.is_overridden(top_key) == config_.is_overridden(block_.root)) {
      return config_.error(fmt::format("{} is {} at the top level and {}.{} is {}: remove one of them", top_key, *top,
                                       block_.key, key, *within));
    }
    return config_.is_overridden(top_key) ? top : within;
  }

  Result<RopeType> type() const {
    UNSPOOL_ASSIGN(const std::optional<std::string> name, inner_.string("rope_type"));
    UNSPOOL_ASSIGN(const std::optional<std::string> old_name, inner_.string("type"));
    // Phi-3's first configs have "su" for what is called longrope since.
    const auto canonical = [this](const std::optional<std::string>& given) {
      std::string text = given.value_or("default");
      return text == "su" || (text == "yarn" && family_.longrope_alone) ? std::string("longrope") : text;
    };
    if (name && old_name && canonical(name) != canonical(old_name)) {
      return config_.error(
          fmt::format("{} has rope_type \"{}\" and type \"{}\": remove one of them", block_.key, *name, *old_name));
    }
    // A block of the old name exists to scale: without a type it says nothing that could be followed.
    if (!name && !old_name && block_.key == kOldBlock && block_.object.size() > 0) {
      return config_.error("rope_scaling has no rope_type");
    }
    const std::string wanted = canonical(name ? name : old_name);
    std::vector<std::string_view> supported;
    for (const TypeName& entry : kTypes) {
      if (family_.longrope_alone && entry.type != RopeType::kDefault && entry.type != RopeType::kLongRope) continue;
      if (entry.name == wanted) return entry.type;
      supported.push_back(entry.name);
    }
    return config_.error(
        fmt::format("unsupported rope type \"{}\"; supported: {}", wanted, fmt::join(supported, ", ")));
  }

  Status read_rotary_dim(RopeConfig& rope) const {
    constexpr std::string_view kKey = "partial_rotary_factor";
    UNSPOOL_ASSIGN(const std::optional<double> partial, either_place(kKey, kKey, 0.0, 1.0, /*above_min=*/true));
    rope.rotary_dim = family_.head_dim;
    if (partial.value_or(1.0) == 1.0) return {};
    if (!family_.follows_partial_factor) {
      return config_.error(
          fmt::format("{}: expected 1, got {}: this architecture rotates whole heads", kKey, *partial));
    }
    rope.rotary_dim = static_cast<int64_t>(static_cast<double>(family_.head_dim) * *partial);
    if (rope.rotary_dim < 1 || (rope.rotary_dim % 2 != 0 && rope.type != RopeType::kDefault)) {
      return config_.error(fmt::format("{}: {} of a head of {} is {} features: expected {}", kKey, *partial,
                                       family_.head_dim, rope.rotary_dim,
                                       rope.rotary_dim < 1 ? "at least one" : "an even number"));
    }
    return {};
  }

  Status required(std::string_view key, double min, double& target) const {
    UNSPOOL_ASSIGN(const std::optional<double> value, inner_.number(key, min, kMaxFactor));
    if (!value) return missing(key);
    target = *value;
    return {};
  }

  Status read_scaled(RopeConfig& rope) const {
    UNSPOOL_TRY(required("factor", 1.0, rope.factor));
    if (rope.type == RopeType::kLinear) return {};
    // Models that have it are trained with another formula, which the reference follows and transformers does not.
    if (inner_.find("alpha"))
      return config_.error(fmt::format("{}.alpha: not supported: dynamic by factor alone", block_.key));
    if (rope.rotary_dim <= 2) {
      return config_.error(fmt::format("{}: rope type dynamic: expected more than 2 features to rotate, got {}",
                                       block_.key, rope.rotary_dim));
    }
    return {};
  }

  // Where it is not said, the context was not extended.
  Status read_original(RopeConfig& rope) const {
    UNSPOOL_ASSIGN(std::optional<double> original,
                   either_place(kOriginal, kOriginal, 1.0, static_cast<double>(kMaxPositions)));
    if (family_.default_original_max > 0 && !config_.find(kOriginal)) {
      const auto standard = static_cast<double>(family_.default_original_max);
      if (original && *original != standard) {
        return config_.error(
            fmt::format("{}.{} is {}, but without the same at the top level this architecture takes {}: say it there "
                        "too",
                        block_.key, kOriginal, *original, standard));
      }
      original = standard;
    }
    rope.original_max_position_embeddings =
        static_cast<int64_t>(original.value_or(static_cast<double>(rope.max_position_embeddings)));
    if (original && static_cast<double>(rope.original_max_position_embeddings) != *original)
      return config_.error(fmt::format("{}.{}: expected an integer, got {}", block_.key, kOriginal, *original));
    return {};
  }

  // How often the original context fits into the one that is served.
  static double extension(const RopeConfig& rope) {
    return static_cast<double>(rope.max_position_embeddings) /
           static_cast<double>(rope.original_max_position_embeddings);
  }

  Status read_attention_factor(RopeConfig& rope, double standard) const {
    UNSPOOL_ASSIGN(const std::optional<double> given, inner_.number("attention_factor", 0.0, kMaxFactor));
    rope.attention_factor = given.value_or(standard);
    return {};
  }

  Status read_yarn(RopeConfig& rope) const {
    UNSPOOL_TRY(read_original(rope));
    if (inner_.has("factor") && !inner_.find("factor")) {  // null: DeepSeek's way to say so
      rope.factor = extension(rope);
    } else {
      UNSPOOL_TRY(required("factor", 1.0, rope.factor));
    }
    if (rope.theta <= 1.0) return config_.error("rope_theta: expected a number above 1 for rope type yarn, got 1");
    const auto or_standard = [this](std::string_view key, double& target) -> Status {
      UNSPOOL_ASSIGN(const std::optional<double> value, inner_.number(key, 0.0, kMaxFactor));
      if (value.value_or(0.0) != 0.0) target = *value;
      return {};
    };
    UNSPOOL_TRY(or_standard("beta_fast", rope.beta_fast));
    UNSPOOL_TRY(or_standard("beta_slow", rope.beta_slow));
    UNSPOOL_ASSIGN(const std::optional<bool> truncate, inner_.boolean("truncate"));
    rope.truncate = truncate.value_or(true);
    double mscale = 0.0, mscale_all_dim = 0.0;
    UNSPOOL_TRY(or_standard("mscale", mscale));
    UNSPOOL_TRY(or_standard("mscale_all_dim", mscale_all_dim));
    const auto scale = [&](double by) { return rope.factor <= 1.0 ? 1.0 : 0.1 * by * contract_log(rope.factor) + 1.0; };
    const bool both = mscale != 0.0 && mscale_all_dim != 0.0;
    return read_attention_factor(rope, both ? scale(mscale) / scale(mscale_all_dim) : scale(1.0));
  }

  Status read_factors(std::string_view key, const RopeConfig& rope, std::vector<double>& factors) const {
    const std::optional<JsonValue> value = inner_.find(key);
    if (!value) return missing(key);
    const std::string expected = fmt::format("a list of {} numbers above 0", rope.rotary_dim / 2);
    if (!value->is_array() || static_cast<int64_t>(value->size()) != rope.rotary_dim / 2)
      return inner_.expected(key, expected, *value);
    for (const JsonValue& element : value->elements()) {
      const std::optional<double> number = element.as_double();
      if (!number || !(*number > 1.0 / kMaxFactor) || !(*number <= kMaxFactor))
        return inner_.expected(key, expected, *value);
      factors.push_back(*number);
    }
    return {};
  }

  Status read_longrope(RopeConfig& rope) const {
    for (const std::string_view key : {"short_mscale", "long_mscale"}) {
      // The reference follows them and transformers does not.
      if (inner_.find(key)) return config_.error(fmt::format("{}.{}: not supported", block_.key, key));
    }
    UNSPOOL_TRY(read_original(rope));
    UNSPOOL_TRY(read_factors("short_factor", rope, rope.short_factor));
    UNSPOOL_TRY(read_factors("long_factor", rope, rope.long_factor));
    UNSPOOL_ASSIGN(const std::optional<double> factor, inner_.number("factor", 1.0, kMaxFactor));
    rope.factor = factor.value_or(extension(rope));
    if (rope.factor > 1.0 && rope.original_max_position_embeddings < 2)
      return config_.error(fmt::format("{}.{}: expected more than 1 for rope type longrope", block_.key, kOriginal));
    return read_attention_factor(
        rope, rope.factor <= 1.0
                  ? 1.0
                  : __builtin_sqrt(1.0 + contract_log(rope.factor) /
                                             contract_log(static_cast<double>(rope.original_max_position_embeddings))));
  }

  Status read_llama3(RopeConfig& rope) const {
    UNSPOOL_TRY(required("factor", 1.0, rope.factor));
    UNSPOOL_TRY(required("low_freq_factor", 1e-6, rope.low_freq_factor));
    UNSPOOL_TRY(required("high_freq_factor", 1e-6, rope.high_freq_factor));
    if (rope.high_freq_factor <= rope.low_freq_factor) {
      return config_.error(fmt::format("{}: expected high_freq_factor above low_freq_factor, got {} and {}", block_.key,
                                       rope.high_freq_factor, rope.low_freq_factor));
    }
    return read_original(rope);
  }

  // transformers says the same of keys that it does not know: a misspelt one is not followed.
  void warn_of_unknown_keys(RopeType type) const {
    std::vector<std::string_view> known = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
    const auto add = [&](std::initializer_list<std::string_view> keys) { known.insert(known.end(), keys); };
    if (type != RopeType::kDefault) add({"factor", kOriginal});
    if (type == RopeType::kYarn)
      add({"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"});
    if (type == RopeType::kLongRope) add({"attention_factor", "short_factor", "long_factor"});
    if (type == RopeType::kLlama3) add({"low_freq_factor", "high_freq_factor"});
    for (const auto& [key, value] : block_.object.members()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        log_warning("config.json: {}.{} is not known for this rope type and is not followed", block_.key, key);
    }
  }

  const ConfigReader& config_;
  const RopeFamily& family_;
  const RopeBlock& block_;
  ConfigReader inner_;
};

}  // namespace

Result<RopeConfig> read_rope_config(const ConfigReader& config, const RopeFamily& family) {
  UNSPOOL_ASSIGN(RopeBlock whole, find_block(config));
  UNSPOOL_ASSIGN(const RopeBlock block, select_layers(config, family, std::move(whole)));
  return RopeReader(config, family, block).read();
}

ContextLength context_length(const RopeConfig& rope) {
  // Angles are taken up to this one.
  constexpr int64_t kMaxContext = int64_t{1} << 22;
  double longest = static_cast<double>(rope.max_position_embeddings);
  const bool scales = rope.type == RopeType::kLinear || rope.type == RopeType::kDynamic || rope.type == RopeType::kYarn;
  if (scales && !rope.context_is_scaled) {
    if (rope.type == RopeType::kYarn) longest = static_cast<double>(rope.original_max_position_embeddings);
    longest *= rope.factor;
  }
  ContextLength context;
  context.longest = static_cast<int64_t>(std::min(longest, static_cast<double>(kMaxContext)));
  context.standard = context.longest;
  if (rope.type == RopeType::kLongRope)
    context.standard = std::min(context.longest, rope.original_max_position_embeddings);
  return context;
}

}  // namespace unspool
