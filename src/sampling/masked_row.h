// A row of logits in which a grammar's mask bars tokens. What the mask leaves of a block whole, or bars whole, has
// stats that are known; those of the others are computed when they are asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/vocab_kernels.h"

namespace unspool {

class MaskedRow {
 public:
  explicit MaskedRow(const VocabKernels& kernels) : kernels_(kernels) {}

  // A bit a token in `mask`: where it is clear, the value is -inf. The logits must outlive the row's use, as must their
  // stats, which may be empty where nobody has them.
  void reset(std::span<const uint32_t> mask, std::span<const float> logits, std::span<const BlockStat> known);

  std::span<const float> values() const { return values_; }
  // No NaN and no +inf among the logits, barred or not: the mask must not hide it.
  bool logits_finite() const;
  // Of values(), bit for bit as VocabKernels::block_stats gives them. Empty where those of the logits are not known.
  std::span<const BlockStat> blocks();

 private:
  enum class Left : uint8_t { kNone, kSome, kAll };
  Left apply_to_block(std::span<const uint32_t> mask, size_t first, size_t count);

  const VocabKernels& kernels_;
  std::span<const float> logits_;
  std::span<const BlockStat> known_;
  std::vector<float> values_;
  std::vector<Left> left_;  // of each block
  std::vector<BlockStat> blocks_;
  bool has_blocks_ = false;
};

}  // namespace unspool
