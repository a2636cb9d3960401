// Inverse frequencies of rotary position embedding.
#pragma once

#include <cstdint>
#include <vector>

#include "models/rope_config.h"

namespace unspool {

// One a pair of features, head_dim / 2 of them, rounded where float32 transformers rounds (modeling_rope_utils.py: the
// default formula and _compute_llama3_parameters), so that the angles are the trainer's.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim);

}  // namespace unspool
