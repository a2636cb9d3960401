#include <algorithm>
#include <limits>
#include <vector>

#include "backend/math.h"
#include "backend/reference/reference.h"

namespace unspool::reference {
namespace {

constexpr int64_t kKeyBlock = 128;  // absolute: a block starts at a multiple of it, whatever else is in the step

struct Block {
  float max;
  float mass;
  std::vector<float> sum;  // [dim]
};

// Keys [begin, end) of one block, of which the row sees those from row.first on. What it does not see counts as p = 0.
//   1. score = (the chain over the head's features) * scale, and where there is a soft cap, cap * tanh(score / cap)
//   2. the largest score
//   3. p = exp(score - max)
//   4. mass: sixteen partial sums of the unrounded p by key mod 16, ascending, then the tree
//   5. sum: for every feature the chain over the keys of p and the stored values, p being the activations
Block attend_block(const AttentionRow& row, int64_t begin, int64_t end) {
  const int64_t keys = end - begin, unseen = std::max<int64_t>(row.first - begin, 0);
  std::vector<float> p(static_cast<size_t>(keys));
  Block block{-std::numeric_limits<float>::infinity(), 0.0f, std::vector<float>(static_cast<size_t>(row.dim))};
  for (int64_t i = unseen; i < keys; ++i) {
    const float* key = row.keys + (begin + i) * row.dim;
    float score = dot(row.q, key, row.dim, row.stored, row.precision) * row.scale;
    if (row.softcap != 0.0f) score = softcap(score, row.softcap);
    p[static_cast<size_t>(i)] = score;
    block.max = std::max(block.max, score);
  }
  float lanes[16] = {};
  for (int64_t i = unseen; i < keys; ++i) {
    p[static_cast<size_t>(i)] = contract_exp(p[static_cast<size_t>(i)] - block.max);
    lanes[i % 16] = lanes[i % 16] + p[static_cast<size_t>(i)];
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  block.mass = lanes[0];
  std::vector<float> column(static_cast<size_t>(keys));
  for (int64_t d = 0; d < row.dim; ++d) {
    for (int64_t i = 0; i < keys; ++i) column[static_cast<size_t>(i)] = row.values[(begin + i) * row.dim + d];
    block.sum[static_cast<size_t>(d)] = dot(p.data(), column.data(), keys, row.stored, row.precision);
  }
  return block;
}

}  // namespace

void attend(const AttentionRow& row, float* out) {
  float max = -std::numeric_limits<float>::infinity(), mass = 0.0f;
  std::vector<float> total(static_cast<size_t>(row.dim), 0.0f);
  for (int64_t begin = row.first / kKeyBlock * kKeyBlock; begin < row.visible; begin += kKeyBlock) {
    const Block block = attend_block(row, begin, std::min(row.visible, begin + kKeyBlock));
    const float m = std::max(max, block.max);
    const float a = contract_exp(max - m), b = contract_exp(block.max - m);
    mass = __builtin_fmaf(mass, a, block.mass * b);
    for (size_t d = 0; d < total.size(); ++d) total[d] = __builtin_fmaf(total[d], a, block.sum[d] * b);
    max = m;
  }
  // Plus zero, so that a sum that underflowed is +0: its sign would tell how many masked keys were multiplied by 0
  // after it.
  for (size_t d = 0; d < total.size(); ++d) out[d] = total[d] / mass + 0.0f;
}

}  // namespace unspool::reference
