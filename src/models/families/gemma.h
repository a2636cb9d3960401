// What Gemma 2 and 3 share.
#pragma once

#include "models/config_reader.h"
#include "models/model_config.h"
#include "models/sliding_window.h"

namespace unspool {

// Of the soft caps, where config.json does not have them; 0: none.
struct GemmaDefaults {
  double attention_softcap = 0.0, logits_softcap = 0.0;
};

Status read_gemma_switches(const ConfigReader& config, const GemmaDefaults& defaults, ModelConfig& model);

}  // namespace unspool
