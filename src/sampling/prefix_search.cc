#include "sampling/prefix_search.h"

#include <algorithm>

namespace unspool {
namespace {

// Equal parts of a slab by value, from the top. In double, where no difference of floats overflows; a larger value
// never falls into a later bin, so that bins follow the order of candidates.
class Bins {
 public:
  Bins(float low, float high, int count) : low_(low), top_(high), last_(count - 1) {
    const double width = top_ - low_;
    scale_ = width > 0.0 ? count / width : 0.0;
  }
  int of(float value) const { return std::min(last_, static_cast<int>((top_ - value) * scale_)); }
  // Both inclusive, of every value in a bin, with a bin's width to spare.
  float low(int bin) const { return static_cast<float>(std::max(low_, top_ - (bin + 2) / scale_)); }
  float high(int bin) const { return static_cast<float>(std::min(top_, top_ - (bin - 1) / scale_)); }

 private:
  double low_;
  double top_;
  double scale_;
  int last_;
};

}  // namespace

template <class Visit>
void PrefixSearch::for_each(const VocabRow& row, const Cut& outer, float low, float high, Weigh weigh,
                            Visit visit) const {
  std::array<int32_t, kVocabBlock> offsets;
  std::array<float, kVocabBlock> exps;
  const auto num_blocks = static_cast<int64_t>(row.blocks().size());
  for (int64_t b = 0; b < num_blocks; ++b) {
    if (row.blocks()[b].max < low) continue;
    const std::span<const float> values = row.block(b);
    const auto n = static_cast<int64_t>(values.size());
    const int64_t found = kernels_.select_at_least(values.data(), n, low, offsets.data(), kVocabBlock);
    if (weigh == Weigh::kMass) kernels_.exp_shifted(values.data(), n, row.max(), exps.data());
    for (int64_t i = 0; i < found; ++i) {
      const Candidate candidate = {values[offsets[i]], static_cast<int32_t>(b * kVocabBlock) + offsets[i]};
      if (candidate.value >= high || !outer.keeps(candidate.value, candidate.id)) continue;
      const double mass = weigh == Weigh::kMass ? exps[offsets[i]] * kMassUnit : 1.0;
      visit(candidate, static_cast<uint64_t>(static_cast<int64_t>(mass)));
    }
  }
}

Cut PrefixSearch::reach(const VocabRow& row, const Cut& outer, Weigh weigh, uint64_t target) {
  // No entry weighs more than one unit of either kind.
  Slabs slabs(row.max(), weigh == Weigh::kCount ? target : static_cast<uint64_t>(target / kMassUnit));
  while (slabs.next()) {
    const Bins bins(slabs.low(), std::min(slabs.high(), row.max()), kBins);
    bins_.fill(0);
    for_each(row, outer, slabs.low(), slabs.high(), weigh,
             [&](const Candidate& c, uint64_t weight) { bins_[bins.of(c.value)] += weight; });
    int bin = 0;
    while (bin < kBins && bins_[bin] < target) target -= bins_[bin++];
    if (bin < kBins) {
      weighted_.clear();
      const float high = bins.high(bin);
      for_each(row, outer, bins.low(bin), slabs.high(), weigh, [&](const Candidate& c, uint64_t weight) {
        if (c.value <= high && bins.of(c.value) == bin) weighted_.push_back({c, weight});
      });
      return {last_to_reach(target)};
    }
    if (slabs.low() <= outer.last.value) break;
  }
  return outer;
}

Candidate PrefixSearch::last_to_reach(uint64_t target) {
  auto begin = weighted_.begin();
  auto end = weighted_.end();
  while (end - begin > 1) {  // halving: linear in all, however many tie
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end,
                     [](const Weighted& a, const Weighted& b) { return before(a.candidate, b.candidate); });
    uint64_t weight = 0;
    for (auto it = begin; it != middle; ++it) weight += it->weight;
    if (weight >= target) {
      end = middle;
    } else {
      target -= weight;
      begin = middle;
    }
  }
  return begin->candidate;
}

}  // namespace unspool
