#include "sampling/truncation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/math.h"

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Unit of mass in top_p: exp(x - max) is at most 1, so 2^20 entries stay below 2^64, while cutting off what is below
// 2^-44 loses less than V * 2^-44, 1e-8 for V = 152k. Integers add up to the same sum in any order, so that the cut
// does not depend on how the candidates were found.
constexpr double kMassUnit = 0x1p44;

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
  const std::vector<Candidate>& kept = selector_.first(row, k);
  if (static_cast<int64_t>(kept.size()) < k) return {};
  return {*std::max_element(kept.begin(), kept.end(), before)};
}

Cut Truncator::top_p_cut(const VocabRow& row, const Cut& outer, std::span<const BlockStat> blocks, float top_p) {
  const double target_mass = static_cast<double>(top_p) * static_cast<double>(LogNormalizer(kernels_, blocks).sum());
  auto target = static_cast<uint64_t>(std::max(1.0, std::ceil(target_mass * kMassUnit)));
  Slabs slabs(row.max());
  while (slabs.next()) {
    slab_.clear();
    gather(kernels_, row, outer, slabs.low(), slabs.high(), slab_);
    const uint64_t mass = weigh_slab(row.max());
    if (mass >= target) return {last_to_reach(target)};
    target -= mass;
    if (slabs.low() <= outer.last.value) break;
  }
  return outer;  // all of it is needed, to within rounding
}

uint64_t Truncator::weigh_slab(float max) {
  slab_exp_.resize(slab_.size());
  for (size_t i = 0; i < slab_.size(); ++i) slab_exp_[i] = slab_[i].value;
  if (!slab_.empty()) kernels_.exp_shifted(slab_exp_.data(), static_cast<int64_t>(slab_.size()), max, slab_exp_.data());
  weighted_.clear();
  uint64_t sum = 0;
  for (size_t i = 0; i < slab_.size(); ++i) {
    const auto mass = static_cast<uint64_t>(static_cast<int64_t>(static_cast<double>(slab_exp_[i]) * kMassUnit));
    weighted_.push_back({slab_[i], mass});
    sum += mass;
  }
  return sum;
}

Candidate Truncator::last_to_reach(uint64_t target) {
  // Halving with nth_element: linear in all, where a sort of a nucleus as wide as the vocabulary takes milliseconds.
  auto begin = weighted_.begin();
  auto end = weighted_.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end,
                     [](const Weighted& a, const Weighted& b) { return before(a.candidate, b.candidate); });
    uint64_t mass = 0;
    for (auto it = begin; it != middle; ++it) mass += it->mass;
    if (mass >= target) {
      end = middle;
    } else {
      target -= mass;
      begin = middle;
    }
  }
  return begin->candidate;
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
