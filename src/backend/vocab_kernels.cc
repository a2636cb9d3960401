#include "backend/vocab_kernels.h"

#include <limits>

#include "backend/math.h"

namespace unspool {

BlockStat merge_block_stats(const BlockStat* stats, int64_t blocks) {
  BlockStat total{-std::numeric_limits<float>::infinity(), 0.0f};
  for (int64_t i = 0; i < blocks; ++i) {
    const BlockStat& block = stats[i];
    if (block.max == -std::numeric_limits<float>::infinity()) continue;
    const float m = total.max > block.max ? total.max : block.max;
    const float a = contract_exp(total.max - m), b = contract_exp(block.max - m);
    total.sum = __builtin_fmaf(total.sum, a, block.sum * b);
    total.max = m;
  }
  return total;
}

}  // namespace unspool
