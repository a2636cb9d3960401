#include "sampling/draw.h"

#include <algorithm>
#include <array>

namespace unspool {
namespace {

struct Pick {
  int64_t index = -1;
  double rest = 0.0;  // how far into the picked weight, in [0, 1]
};

// The first index whose cumulative weight exceeds uniform * total. Weights of 0 are never picked; rounding at the upper
// end picks the last positive one.
Pick pick(std::span<const double> weights, double uniform) {
  double total = 0.0;
  for (const double weight : weights) total += weight;
  const double target = uniform * total;
  Pick result;
  double below = 0.0;         // cumulative weight before i
  double below_picked = 0.0;  // and before the picked index
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0.0)) continue;
    result.index = static_cast<int64_t>(i);
    below_picked = below;
    below += weights[i];
    if (below > target) break;
  }
  if (result.index >= 0) result.rest = std::clamp((target - below_picked) / weights[result.index], 0.0, 1.0);
  return result;
}

}  // namespace

int32_t Drawer::draw(const VocabRow& row, const Truncation& truncation, double uniform) {
  const std::span<const BlockStat> blocks = truncation.blocks;
  exps_.resize(std::max<size_t>(blocks.size(), kVocabBlock));
  weights_.resize(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) exps_[b] = blocks[b].max;
  kernels_.exp_shifted(exps_.data(), static_cast<int64_t>(blocks.size()), row.max(), exps_.data());
  for (size_t b = 0; b < blocks.size(); ++b) {
    weights_[b] = static_cast<double>(blocks[b].sum) * static_cast<double>(exps_[b]);
  }
  const Pick block = pick(weights_, uniform);
  if (block.index < 0) return -1;

  const int64_t n = copy_kept(row, truncation.cut, block.index, exps_.data());
  kernels_.exp_shifted(exps_.data(), n, blocks[block.index].max, exps_.data());
  weights_.assign(exps_.begin(), exps_.begin() + n);
  return static_cast<int32_t>(block.index * kVocabBlock + pick(weights_, block.rest).index);
}

}  // namespace unspool
