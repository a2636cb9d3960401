// Rotary position embedding: cosines and sines by position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace unspool {

// The table for given inverse frequencies (one a pair of features). The angle of a position is the float32 product of
// the position and the inverse frequency, as trainers compute it; its cosine and sine are computed in double and
// rounded once, and then multiplied by the attention factor (which makes scores grow by its square).
class RotaryEmbedding {
 public:
  RotaryEmbedding(std::vector<float> inverse_frequencies, int64_t max_positions, double attention_factor = 1.0);

  int64_t half() const { return static_cast<int64_t>(frequencies_.size()); }
  // cos, sin: [positions, half].
  void gather(std::span<const int32_t> positions, float* cos, float* sin);

 private:
  // Computed when first asked for, in runs of positions: a model's maximum may be far above what is ever used.
  static constexpr int64_t kRun = 256;
  const float* run_of(int64_t position);

  std::vector<float> frequencies_;
  float attention_factor_;
  std::vector<std::unique_ptr<float[]>> runs_;  // [kRun, 2, half]
};

}  // namespace unspool
