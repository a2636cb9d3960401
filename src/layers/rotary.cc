#include "layers/rotary.h"

#include <algorithm>

#include "backend/math.h"
#include "base/check.h"

namespace unspool {

RotaryEmbedding::RotaryEmbedding(std::vector<float> inverse_frequencies, int64_t max_positions, double attention_factor)
    : frequencies_(std::move(inverse_frequencies)),
      attention_factor_(static_cast<float>(attention_factor)),
      runs_(static_cast<size_t>((max_positions + kRun - 1) / kRun)) {}

const float* RotaryEmbedding::run_of(int64_t position) {
  const int64_t index = position / kRun;
  UNSPOOL_CHECK(position >= 0 && index < static_cast<int64_t>(runs_.size()), "position {} of {}", position,
                static_cast<int64_t>(runs_.size()) * kRun);
  auto& run = runs_[static_cast<size_t>(index)];
  if (run == nullptr) {
    run = std::make_unique<float[]>(static_cast<size_t>(kRun * 2 * half()));
    for (int64_t i = 0; i < kRun; ++i)
      for (int64_t j = 0; j < half(); ++j) {
        const float angle = static_cast<float>(index * kRun + i) * frequencies_[static_cast<size_t>(j)];
        double sine = 0.0, cosine = 0.0;
        contract_sincos(static_cast<double>(angle), &sine, &cosine);
        run[static_cast<size_t>(i * 2 * half() + j)] = static_cast<float>(cosine) * attention_factor_;
        run[static_cast<size_t>((i * 2 + 1) * half() + j)] = static_cast<float>(sine) * attention_factor_;
      }
  }
  return run.get();
}

void RotaryEmbedding::gather(std::span<const int32_t> positions, float* cos, float* sin) {
  for (const int32_t position : positions) {
    const float* entry = run_of(position) + position % kRun * 2 * half();
    std::copy_n(entry, half(), cos);
    std::copy_n(entry + half(), half(), sin);
    cos += half();
    sin += half();
  }
}

}  // namespace unspool
