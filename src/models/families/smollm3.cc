// SmolLM3: Llama's layers, some of which are not rotated; windows, if any, are on those.
#include <fmt/format.h>

#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

// no_rope_layers has a 1 for every layer that is rotated, and a 0 for the others; without it every
// no_rope_layer_interval-th is not.
Status read_rotations(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_ASSIGN(const std::optional<int64_t> interval, config.integer("no_rope_layer_interval", 1, 1 << 20));
  const std::optional<JsonValue> rotated = config.find("no_rope_layers");
  const auto layers = static_cast<size_t>(model.num_hidden_layers);
  const std::string what = fmt::format("a list of {} numbers, each 0 or 1", layers);
  if (rotated && (!rotated->is_array() || rotated->size() < layers)) {
    return config.expected("no_rope_layers", what, *rotated);
  }
  const std::vector<JsonValue> list = rotated ? rotated->elements() : std::vector<JsonValue>();
  for (size_t i = 0; i < layers; ++i) {
    int64_t rotates = (i + 1) % static_cast<size_t>(interval.value_or(4)) != 0 ? 1 : 0;
    if (rotated) rotates = list[i].as_int64().value_or(-1);
    if (rotates != 0 && rotates != 1) return config.expected("no_rope_layers", what, *rotated);
    model.layers[i].rotation = rotates == 1 ? 0 : -1;
  }
  return {};
}

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_TRY(read_attention_bias(config, model));
  UNSPOOL_TRY(config.flag("mlp_bias", model.mlp_bias));
  UNSPOOL_TRY(read_rotations(config, model));
  const auto slides = [&](int64_t layer) { return model.layers[static_cast<size_t>(layer)].rotation < 0; };
  return read_sliding_window(config, {.slides = slides, .gated = true}, model);
}

}  // namespace

Family smollm3_family() {
  return {.architecture = "SmolLM3ForCausalLM",
          .default_kv_heads = 4,
          .ties_by_default = true,
          .rope = {.default_theta = 2e6},
          .read_switches = read_switches,
          .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
