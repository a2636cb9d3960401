#include "sampling/masked_row.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kBits = 32;

}  // namespace

void MaskedRow::reset(std::span<const uint32_t> mask, std::span<const float> logits, std::span<const BlockStat> known) {
  logits_ = logits;
  known_ = known;
  has_blocks_ = false;
  values_.resize(logits.size());
  left_.clear();
  for (size_t first = 0; first < logits.size(); first += kVocabBlock) {
    left_.push_back(apply_to_block(mask, first, std::min<size_t>(kVocabBlock, logits.size() - first)));
  }
}

// Most words are full or empty; within the others only what is rarer is done bit by bit.
MaskedRow::Left MaskedRow::apply_to_block(std::span<const uint32_t> mask, size_t first, size_t count) {
  bool any = false;
  bool all = true;
  for (size_t at = first; at < first + count; at += kBits) {
    const size_t bits = std::min(kBits, first + count - at);
    const float* const from = logits_.data() + at;
    float* const to = values_.data() + at;
    const uint32_t inside = bits == kBits ? ~0U : (1U << bits) - 1;
    const uint32_t allowed = at / kBits < mask.size() ? mask[at / kBits] & inside : 0;
    any |= allowed != 0;
    all &= allowed == inside;
    if (allowed == inside) {
      std::copy_n(from, bits, to);
    } else if (allowed == 0) {
      std::fill_n(to, bits, -kInfinity);
    } else if (std::popcount(allowed) < static_cast<int>(kBits / 2)) {
      std::fill_n(to, bits, -kInfinity);
      for (uint32_t left = allowed; left != 0; left &= left - 1) {
        to[std::countr_zero(left)] = from[std::countr_zero(left)];
      }
    } else {
      std::copy_n(from, bits, to);
      for (uint32_t left = ~allowed & inside; left != 0; left &= left - 1) to[std::countr_zero(left)] = -kInfinity;
    }
  }
  return all ? Left::kAll : any ? Left::kSome : Left::kNone;
}

bool MaskedRow::logits_finite() const {
  if (known_.empty()) {
    return kernels_.no_nan_or_positive_inf(logits_.data(), static_cast<int64_t>(logits_.size()));
  }
  return std::none_of(known_.begin(), known_.end(), [](const BlockStat& block) { return std::isnan(block.sum); });
}

std::span<const BlockStat> MaskedRow::blocks() {
  if (known_.empty()) return {};
  if (!has_blocks_) {
    has_blocks_ = true;
    blocks_.resize(left_.size());
    for (size_t i = 0; i < left_.size(); ++i) {
      const size_t first = i * kVocabBlock;
      const auto count = static_cast<int64_t>(std::min<size_t>(kVocabBlock, values_.size() - first));
      switch (left_[i]) {
        case Left::kNone:
          blocks_[i] = {-kInfinity, 0.0f};
          break;
        case Left::kAll:
          blocks_[i] = known_[i];
          break;
        case Left::kSome:
          kernels_.block_stats(values_.data() + first, count, &blocks_[i]);
          break;
      }
    }
  }
  return blocks_;
}

}  // namespace unspool
