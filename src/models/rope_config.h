// How positions are rotated, as config.json says it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "models/config_reader.h"

namespace unspool {

enum class RopeType { kDefault, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;  // what every family falls back to
  // Of kLlama3 alone.
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 0;
};

// Reads both spellings: `rope_theta` and `rope_scaling` at the top level (its type under `rope_type` or, older,
// `type`), and `rope_parameters` with all of it inside. Where two spellings are given and disagree, an overridden one
// wins over the file's; otherwise it is an error. So is every type but default and llama3, and a partial rotary factor.
Result<RopeConfig> read_rope_config(const ConfigReader& config);

}  // namespace unspool
