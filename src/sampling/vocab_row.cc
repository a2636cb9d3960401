#include "sampling/vocab_row.h"

#include <algorithm>
#include <limits>

#include "backend/math.h"

namespace unspool {

LogNormalizer::LogNormalizer(std::span<const BlockStat> blocks) {
  const BlockStat total = merge_block_stats(blocks.data(), static_cast<int64_t>(blocks.size()));
  max_ = total.max;
  sum_ = total.sum;
  log_sum_ = contract_log(total.sum);
}

void VocabRow::reset(std::span<const float> values) {
  values_ = values;
  blocks_.resize((values.size() + kVocabBlock - 1) / kVocabBlock);
  kernels_.block_stats(values.data(), size(), blocks_.data());
  max_ = -std::numeric_limits<float>::infinity();
  for (const BlockStat& block : blocks_) max_ = std::max(max_, block.max);
}

std::span<const float> VocabRow::block(int64_t index) const {
  const int64_t start = index * kVocabBlock;
  return values_.subspan(start, std::min<int64_t>(kVocabBlock, size() - start));
}

}  // namespace unspool
