#include "models/rope_config.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace unspool {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 27;

// The object that holds the parameters, under one of its two names, or neither.
struct RopeBlock {
  std::string_view key;
  JsonValue object;
};

Result<RopeBlock> find_block(const ConfigReader& config) {
  constexpr std::string_view kNew = "rope_parameters";
  constexpr std::string_view kOld = "rope_scaling";
  const std::optional<JsonValue> new_block = config.find(kNew);
  const std::optional<JsonValue> old_block = config.find(kOld);
  RopeBlock block{kOld, JsonValue()};
  if (new_block && old_block && new_block->dump() != old_block->dump()) {
    if (config.is_overridden(kNew) == config.is_overridden(kOld)) {
      return config.error("rope_parameters and rope_scaling are both given and differ: remove one of them");
    }
    block = config.is_overridden(kNew) ? RopeBlock{kNew, *new_block} : RopeBlock{kOld, *old_block};
  } else if (new_block) {
    block = {kNew, *new_block};
  } else if (old_block) {
    block = {kOld, *old_block};
  }
  if (!block.object.is_null() && !block.object.is_object())
    return config.expected(block.key, "an object", block.object);
  return block;
}

// A number that may stand at the top level or within the block.
Result<std::optional<double>> either_place(const ConfigReader& config, const ConfigReader& inner,
                                           const RopeBlock& block, std::string_view key, double min, double max) {
  UNSPOOL_ASSIGN(const std::optional<double> top, config.number(key, min, max));
  UNSPOOL_ASSIGN(const std::optional<double> within, inner.number(key, min, max));
  if (!top || !within || *top == *within) return top ? top : within;
  if (config.is_overridden(key) == config.is_overridden(block.key)) {
    return config.error(
        fmt::format("{} is {} at the top level and {} in {}: remove one of them", key, *top, *within, block.key));
  }
  return config.is_overridden(key) ? top : within;
}

Result<std::string> rope_type_name(const ConfigReader& config, const ConfigReader& inner, const RopeBlock& block) {
  for (const auto& [key, value] : block.object.members()) {
    if (value.is_object()) {
      return config.error(fmt::format("{}.{}: rotary parameters per layer type are not supported", block.key, key));
    }
  }
  UNSPOOL_ASSIGN(const std::optional<std::string> name, inner.string("rope_type"));
  UNSPOOL_ASSIGN(const std::optional<std::string> old_name, inner.string("type"));
  if (name && old_name && *name != *old_name) {
    return config.error(
        fmt::format("{} has rope_type \"{}\" and type \"{}\": remove one of them", block.key, *name, *old_name));
  }
  // A block of the old name exists to scale: without a type it says nothing that could be followed.
  if (!name && !old_name && block.key == "rope_scaling" && block.object.size() > 0) {
    return config.error("rope_scaling has no rope_type");
  }
  return name.value_or(old_name.value_or("default"));
}

Status read_llama3(const ConfigReader& config, const ConfigReader& inner, const RopeBlock& block, RopeConfig& rope) {
  const auto required = [&](std::string_view key, double min, double& target) -> Status {
    UNSPOOL_ASSIGN(const std::optional<double> value, inner.number(key, min, kMaxFactor));
    if (!value) return config.error(fmt::format("{}.{} is missing", block.key, key));
    target = *value;
    return {};
  };
  UNSPOOL_TRY(required("factor", 1.0, rope.factor));
  UNSPOOL_TRY(required("low_freq_factor", 1e-6, rope.low_freq_factor));
  UNSPOOL_TRY(required("high_freq_factor", 1e-6, rope.high_freq_factor));
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    return config.error(fmt::format("{}: expected high_freq_factor above low_freq_factor, got {} and {}", block.key,
                                    rope.high_freq_factor, rope.low_freq_factor));
  }
  constexpr std::string_view kOriginal = "original_max_position_embeddings";
  UNSPOOL_ASSIGN(const std::optional<double> original,
                 either_place(config, inner, block, kOriginal, 1.0, static_cast<double>(kMaxPositions)));
  if (!original) return config.error(fmt::format("{}.{} is missing", block.key, kOriginal));
  rope.original_max_position_embeddings = static_cast<int64_t>(*original);
  if (static_cast<double>(rope.original_max_position_embeddings) != *original) {
    return config.error(fmt::format("{}.{}: expected an integer, got {}", block.key, kOriginal, *original));
  }
  return {};
}

}  // namespace

Result<RopeConfig> read_rope_config(const ConfigReader& config) {
  UNSPOOL_ASSIGN(const RopeBlock block, find_block(config));
  const ConfigReader inner = config.nested(block.key, block.object);
  RopeConfig rope;
  UNSPOOL_ASSIGN(const std::string type, rope_type_name(config, inner, block));
  if (type == "llama3") {
    rope.type = RopeType::kLlama3;
    UNSPOOL_TRY(read_llama3(config, inner, block, rope));
  } else if (type != "default") {
    return config.error(fmt::format("unsupported rope type \"{}\"; supported: default, llama3", type));
  }
  UNSPOOL_ASSIGN(const std::optional<double> theta, either_place(config, inner, block, "rope_theta", 1.0, kMaxTheta));
  rope.theta = theta.value_or(rope.theta);
  UNSPOOL_ASSIGN(const std::optional<double> partial,
                 either_place(config, inner, block, "partial_rotary_factor", 0.0, 1.0));
  if (partial.value_or(1.0) != 1.0) {
    return config.error(
        fmt::format("partial_rotary_factor: expected 1, got {}: partial rotation is not supported", *partial));
  }
  return rope;
}

}  // namespace unspool
