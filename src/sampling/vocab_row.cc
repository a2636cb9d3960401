#include "sampling/vocab_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/math.h"

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

LogNormalizer::LogNormalizer(const VocabKernels& kernels, std::span<const BlockStat> blocks) {
  const BlockStat total = merge_blocks(kernels, blocks);
  max_ = total.max;
  sum_ = total.sum;
  log_sum_ = contract_log(total.sum);
}

BlockStat merge_blocks(const VocabKernels& kernels, std::span<const BlockStat> blocks) {
  constexpr size_t kChunk = 128;
  std::array<float, kChunk> old_scale, block_scale;  // exp(m_o - m), exp(m_b - m)
  BlockStat total = {-kInfinity, 0.0f};
  for (size_t start = 0; start < blocks.size(); start += kChunk) {
    const std::span<const BlockStat> chunk = blocks.subspan(start, std::min(kChunk, blocks.size() - start));
    const auto n = static_cast<int64_t>(chunk.size());
    for (size_t b = 0; b < chunk.size(); ++b) {
      const float max = total.max > chunk[b].max ? total.max : chunk[b].max;
      const bool empty = max == -kInfinity;  // -inf less -inf would be NaN
      old_scale[b] = empty ? 0.0f : total.max - max;
      block_scale[b] = empty ? 0.0f : chunk[b].max - max;
      total.max = max;
    }
    kernels.exp_shifted(old_scale.data(), n, 0.0f, old_scale.data());
    kernels.exp_shifted(block_scale.data(), n, 0.0f, block_scale.data());
    for (size_t b = 0; b < chunk.size(); ++b) {
      total.sum = std::fma(total.sum, old_scale[b], chunk[b].sum * block_scale[b]);
    }
  }
  return total;
}

void VocabRow::reset(std::span<const float> values, std::span<const BlockStat> known) {
  values_ = values;
  blocks_ = known;
  if (known.empty()) {
    own_blocks_.resize(static_cast<size_t>(vocab_blocks(size())));
    kernels_.block_stats(values.data(), size(), own_blocks_.data());
    blocks_ = own_blocks_;
  }
  max_ = -kInfinity;
  finite_ = true;
  for (const BlockStat& block : blocks_) {
    max_ = std::max(max_, block.max);
    finite_ &= !std::isnan(block.sum);
  }
}

std::span<const float> VocabRow::block(int64_t index) const {
  const int64_t start = index * kVocabBlock;
  return values_.subspan(start, std::min<int64_t>(kVocabBlock, size() - start));
}

}  // namespace unspool
