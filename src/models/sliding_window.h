// Which layers see a window of the last keys alone, as config.json says it.
#pragma once

#include <cstdint>
#include <optional>

#include "models/config_reader.h"
#include "models/model_config.h"

namespace unspool {

struct WindowRules {
  std::optional<int64_t> by_default = {};  // sliding_window where the config has none; null there is no window
  bool gated = false;                      // by use_sliding_window and max_window_layers
};

// Attention sees every earlier token. A window is let pass only where it changes nothing: on no layer, or as long as
// the context.
Status read_sliding_window(const ConfigReader& config, const WindowRules& rules, const ModelConfig& model);

}  // namespace unspool
