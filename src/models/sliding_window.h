// Which layers see a window of the last keys alone, as config.json says it.
#pragma once

#include <cstdint>
#include <functional>

#include "models/config_reader.h"
#include "models/model_config.h"

namespace unspool {

struct WindowRules {
  int64_t by_default = 0;  // sliding_window where config.json has no such field; 0, as null there: no window
  // Layers that have it where config.json has no layer_types; none: no layer may.
  std::function<bool(int64_t layer)> slides = {};
  bool gated = false;         // use_sliding_window must say so
  bool takes_types = true;    // layer_types decides; otherwise it may only say what `slides` says
  bool needs_window = false;  // some layers slide whatever else is said
};

// Fills in the layers' windows. Refuses layer_types that are unknown, or contradict the rest.
Status read_sliding_window(const ConfigReader& config, const WindowRules& rules, ModelConfig& model);

// As Qwen2 and its descendants have them: with use_sliding_window, on the layers from max_window_layers on.
Status read_qwen_windows(const ConfigReader& config, ModelConfig& model);

}  // namespace unspool
