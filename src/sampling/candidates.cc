#include "sampling/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace unspool {
namespace {

// In nats below the maximum.
constexpr std::array<float, 8> kSlabDepths = {2.0f, 4.0f, 6.0f, 9.0f, 12.0f, 16.0f, 24.0f, 48.0f};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

}  // namespace

bool Slabs::next() {
  if (low_ == kLowest) return false;
  high_ = low_;
  low_ = step_ < static_cast<int>(kSlabDepths.size()) ? std::max(max_ - kSlabDepths[step_], kLowest) : kLowest;
  ++step_;
  return true;
}

void gather(const VocabKernels& kernels, const VocabRow& row, const Cut& cut, float low, float high,
            std::vector<Candidate>& out) {
  std::array<int32_t, kVocabBlock> offsets;
  const auto num_blocks = static_cast<int64_t>(row.blocks().size());
  for (int64_t b = 0; b < num_blocks; ++b) {
    if (row.blocks()[b].max < low) continue;
    const std::span<const float> values = row.block(b);
    const int64_t found =
        kernels.select_at_least(values.data(), static_cast<int64_t>(values.size()), low, offsets.data(), kVocabBlock);
    for (int64_t i = 0; i < found; ++i) {
      const Candidate candidate = {values[offsets[i]], static_cast<int32_t>(b * kVocabBlock) + offsets[i]};
      if (candidate.value < high && cut.keeps(candidate.value, candidate.id)) out.push_back(candidate);
    }
  }
}

float CandidateSelector::lower_bound_of(const VocabRow& row, int64_t count) {
  const std::span<const BlockStat> blocks = row.blocks();
  if (count > static_cast<int64_t>(blocks.size())) return -kInfinity;
  maxima_.clear();
  for (const BlockStat& block : blocks) maxima_.push_back(block.max);
  std::nth_element(maxima_.begin(), maxima_.begin() + (count - 1), maxima_.end(), std::greater<>());
  return maxima_[count - 1];
}

std::vector<Candidate>& CandidateSelector::first(const VocabRow& row, int64_t count) {
  selected_.clear();
  const float bound = lower_bound_of(row, count);
  if (bound > -kInfinity) {
    gather(kernels_, row, Cut{}, bound, kInfinity, selected_);
  } else {
    Slabs slabs(row.max());
    while (static_cast<int64_t>(selected_.size()) < count && slabs.next()) {
      gather(kernels_, row, Cut{}, slabs.low(), slabs.high(), selected_);
    }
  }
  if (static_cast<int64_t>(selected_.size()) > count) {
    std::nth_element(selected_.begin(), selected_.begin() + (count - 1), selected_.end(), before);
    selected_.resize(count);
  }
  return selected_;
}

}  // namespace unspool
