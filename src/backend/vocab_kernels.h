// Reductions over the vocabulary with the arithmetic contract's bits (docs/numerics.md, section 2): absolute blocks of
// 256, the same on every instruction set.
#pragma once

#include <cstdint>

namespace unspool {

inline constexpr int kVocabBlock = 256;
constexpr int64_t vocab_blocks(int64_t vocab_size) {
  return (vocab_size + kVocabBlock - 1) / kVocabBlock;
}

// Maximum of a block and the sum of exp(x - max) over it (16 lanes by index mod 16, added in the tree 8, 4, 2, 1).
// A block of -inf alone has max -inf and sum 0; with a NaN or +inf in it the sum is NaN, and the max is anything.
struct BlockStat {
  float max;
  float sum;
};

struct VocabKernels {
  // stats[b] for every block of x[0, n); the last block may be short. n > 0.
  void (*block_stats)(const float* x, int64_t n, BlockStat* stats);
  // Entries with x[i] >= value.
  int64_t (*count_at_least)(const float* x, int64_t n, float value);
  // The lowest index of the largest value.
  int64_t (*argmax)(const float* x, int64_t n);
  // y[i] = exp(x[i] - shift), elementwise; y may be x.
  void (*exp_shifted)(const float* x, int64_t n, float shift, float* y);
  // y[i] = x[i] * factor; y may be x.
  void (*scale)(const float* x, int64_t n, float factor, float* y);
  // y[i] = x[i] / divisor; y may be x. (Temperature: one rounding.)
  void (*divide)(const float* x, int64_t n, float divisor, float* y);
  // Indices with x[i] >= threshold, ascending, at most `capacity`; returns how many there are in all.
  int64_t (*select_at_least)(const float* x, int64_t n, float threshold, int32_t* indices, int64_t capacity);
  // False if any value is NaN or +inf.
  bool (*no_nan_or_positive_inf)(const float* x, int64_t n);
};

// Merges block stats left to right: m = max(m_o, m_b); l = fma(l, exp(m_o - m), l_b * exp(m_b - m)).
// -inf blocks add nothing; a row of -inf alone gives {-inf, 0}.
BlockStat merge_block_stats(const BlockStat* stats, int64_t blocks);

}  // namespace unspool
