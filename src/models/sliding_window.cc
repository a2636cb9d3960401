#include "models/sliding_window.h"

#include <fmt/format.h>

namespace unspool {

Status read_sliding_window(const ConfigReader& config, const WindowRules& rules, const ModelConfig& model) {
  if (const std::optional<JsonValue> layer_types = config.find("layer_types")) {
    if (!layer_types->is_array() || static_cast<int64_t>(layer_types->size()) != model.num_hidden_layers) {
      return config.expected("layer_types", fmt::format("a list of {} names", model.num_hidden_layers), *layer_types);
    }
    for (const JsonValue& type : layer_types->elements()) {
      if (type.as_string() != "full_attention") {
        return config.error(fmt::format("layer_types: unsupported {}; supported: \"full_attention\"", type.dump()));
      }
    }
    return {};
  }
  if (rules.gated) {
    UNSPOOL_ASSIGN(const std::optional<bool> used, config.boolean("use_sliding_window"));
    UNSPOOL_ASSIGN(const std::optional<int64_t> first_layer, config.integer("max_window_layers", 0, 1024));
    if (!used.value_or(false) || first_layer.value_or(28) >= model.num_hidden_layers) return {};
  }
  UNSPOOL_ASSIGN(std::optional<int64_t> window, config.integer("sliding_window", 1, int64_t{1} << 27));
  if (!config.has("sliding_window")) window = rules.by_default;
  if (window && *window < model.max_position_embeddings) {
    return config.error(fmt::format("sliding_window: {} of {} positions: sliding windows are not supported", *window,
                                    model.max_position_embeddings));
  }
  return {};
}

}  // namespace unspool
