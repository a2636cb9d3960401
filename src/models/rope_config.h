// How positions are rotated, as config.json says it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "models/config_reader.h"

namespace unspool {

enum class RopeType { kDefault, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

// One rotation. Fields that its type does not have keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  int64_t rotary_dim = 0;  // the first features of a head, which are rotated; the others pass
  int64_t max_position_embeddings = 0;
  double factor = 1.0;
  int64_t original_max_position_embeddings = 0;             // kYarn, kLongRope, kLlama3
  double attention_factor = 1.0;                            // kYarn, kLongRope: cosines and sines are multiplied by it
  double low_freq_factor = 1.0, high_freq_factor = 4.0;     // kLlama3
  double beta_fast = 32.0, beta_slow = 1.0;                 // kYarn
  bool truncate = true;                                     // kYarn: whole dimensions as the ends of the ramp
  std::vector<double> short_factor = {}, long_factor = {};  // kLongRope: [rotary_dim / 2]
  // What the type adds to the context is in max_position_embeddings already.
  bool context_is_scaled = false;

  int64_t num_frequencies() const { return (rotary_dim + 1) / 2; }
};

// What a family fixes of its rotation, or of one of them.
struct RopeFamily {
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double default_theta = 10000.0;
  bool follows_partial_factor = false;  // partial_rotary_factor
  // Phi-3: default and longrope alone, which is also what "yarn" means there.
  bool longrope_alone = false;
  int64_t default_original_max = 0;  // Phi-3 again: original_max_position_embeddings where config.json has none
  bool context_is_scaled = false;
  // Gemma 3: rope_parameters has an object a layer type; read that one. Where there is but one object, it is of the
  // layers that see everything.
  std::string_view layer_type = {};
  std::string_view theta_key = "rope_theta";  // at the top level
};

// Reads both spellings: `rope_theta` and `rope_scaling` at the top level (its type under `rope_type` or, older,
// `type`), and `rope_parameters` with all of it inside. Where two spellings are given and disagree, an overridden one
// wins over the file's; otherwise it is an error. So is every type that is not one of RopeType.
Result<RopeConfig> read_rope_config(const ConfigReader& config, const RopeFamily& family);

// How many tokens a sequence may have, and how many where nobody says: as the reference derives it, the model's context
// with what its rotation adds. Phi-3's models have two rotations and are served with the short one unless asked.
struct ContextLength {
  int64_t longest = 0, standard = 0;
};
ContextLength context_length(const RopeConfig& rope);

}  // namespace unspool
