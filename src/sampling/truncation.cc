#include "sampling/truncation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/math.h"

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

int64_t copy_kept(const VocabRow& row, const Cut& cut, int64_t index, float* out) {
  const std::span<const float> values = row.block(index);
  const auto first_id = static_cast<int32_t>(index * kVocabBlock);
  const auto n = static_cast<int32_t>(values.size());
  for (int32_t i = 0; i < n; ++i) out[i] = cut.keeps(values[i], first_id + i) ? values[i] : -kInfinity;
  return n;
}

Truncation Truncator::truncate(const VocabRow& row, const SamplingParams& params) {
  Cut cut;
  if (params.min_p > 0.0f) cut.last.value = row.max() + contract_log(params.min_p);
  if (params.top_k > 0 && params.top_k < row.size()) cut = tighter(cut, top_k_cut(row, params.top_k));
  if (params.top_p < 1.0f) cut = top_p_cut(row, cut, kept_blocks(row, cut), params.top_p);
  return {cut, kept_blocks(row, cut)};
}

Cut Truncator::top_k_cut(const VocabRow& row, int64_t k) {
  if (k > static_cast<int64_t>(row.blocks().size())) {  // block maxima say nothing about the k-th value
    return search_.reach(row, {}, Weigh::kCount, static_cast<uint64_t>(k));
  }
  const std::vector<Candidate>& kept = selector_.first(row, k);
  if (static_cast<int64_t>(kept.size()) < k) return {};
  return {*std::max_element(kept.begin(), kept.end(), before)};
}

Cut Truncator::top_p_cut(const VocabRow& row, const Cut& outer, std::span<const BlockStat> blocks, float top_p) {
  const double mass = static_cast<double>(LogNormalizer(kernels_, blocks).sum());
  const double target = std::ceil(static_cast<double>(top_p) * mass * kMassUnit);
  // Where all that is kept falls short, it does so by rounding, and all of it is needed.
  return search_.reach(row, outer, Weigh::kMass, static_cast<uint64_t>(std::max(1.0, target)));
}

std::span<const BlockStat> Truncator::kept_blocks(const VocabRow& row, const Cut& cut) {
  if (cut.keeps_all()) return row.blocks();
  std::array<float, kVocabBlock> values;
  const std::span<const BlockStat> blocks = row.blocks();
  kept_blocks_.assign(blocks.size(), BlockStat{-kInfinity, 0.0f});
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b].max < cut.last.value) continue;
    const int64_t n = copy_kept(row, cut, static_cast<int64_t>(b), values.data());
    kernels_.block_stats(values.data(), n, &kept_blocks_[b]);
  }
  return kept_blocks_;
}

}  // namespace unspool
