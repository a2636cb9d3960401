// Inverse frequencies of rotary position embedding.
#pragma once

#include <cstdint>
#include <vector>

#include "models/rope_config.h"

namespace unspool {

// One a pair of features, rotary_dim / 2 of them, rounded where float32 transformers rounds (modeling_rope_utils.py),
// so that the angles are the trainer's.
//
// Two types have frequencies that depend on the length of the sequence, there. Keys stay in the cache, and a prefix is
// shared by sequences of any length, so here they are those of one length: `max_model_len`, which is the server's
// --max-model-len. Below the border (max_position_embeddings for dynamic, original_max_position_embeddings for
// longrope) these are the trainer's for every sequence; above it, those of its longest one.
std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t max_model_len);

}  // namespace unspool
