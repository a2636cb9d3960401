// A row of values over the vocabulary with its block stats, and the log-prob of a value in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/vocab_kernels.h"

namespace unspool {

// Log-softmax from merged block stats, all in float32 and in this order (docs/numerics.md):
//   1. per absolute block of 256: m_b and l_b                 (VocabKernels::block_stats)
//   2. blocks left to right: m, l                             (as merge_block_stats)
//   3. log_l = contract_log(l)
//   4. logprob(x) = (x - m) - log_l
// Not x - (m + log_l): m of some tens would round log_l to 2^-19 or so, which is all that a confident token's log-prob
// consists of. Sampled and prompt log-probs both come from here, hence the same bits.
class LogNormalizer {
 public:
  LogNormalizer() = default;
  LogNormalizer(const VocabKernels& kernels, std::span<const BlockStat> blocks);

  float logprob(float x) const { return (x - max_) - log_sum_; }
  float max() const { return max_; }
  float sum() const { return sum_; }          // of exp(x - max())
  float log_sum() const { return log_sum_; }  // its log

 private:
  float max_ = 0.0f;
  float sum_ = 1.0f;
  float log_sum_ = 0.0f;
};
// merge_block_stats, bit for bit, with the exponentials taken many at a time: only the sum itself has to go block by
// block, which makes the 594 blocks of a 152k vocabulary ten times cheaper.
BlockStat merge_blocks(const VocabKernels& kernels, std::span<const BlockStat> blocks);

class VocabRow {
 public:
  explicit VocabRow(const VocabKernels& kernels) : kernels_(kernels) {}

  // The values must outlive the row's use, and so must their stats where they are known already.
  void reset(std::span<const float> values, std::span<const BlockStat> known = {});

  std::span<const float> values() const { return values_; }
  int64_t size() const { return static_cast<int64_t>(values_.size()); }
  std::span<const BlockStat> blocks() const { return blocks_; }
  float max() const { return max_; }       // -inf: nothing can be drawn
  bool finite() const { return finite_; }  // no NaN and no +inf; nothing else holds if not

  // The block's values: [256], the last one shorter.
  std::span<const float> block(int64_t index) const;

 private:
  const VocabKernels& kernels_;
  std::span<const float> values_;
  std::span<const BlockStat> blocks_;
  std::vector<BlockStat> own_blocks_;
  float max_ = 0.0f;
  bool finite_ = false;
};

}  // namespace unspool
