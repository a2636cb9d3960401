#include "tokenizer/merge_table.h"

#include <bit>

#include "base/check.h"

namespace unspool {

void MergeTable::reset(size_t num_merges) {
  const size_t slots = std::bit_ceil(2 * num_merges + 2);
  slots_.assign(slots, Slot{});
  shift_ = 64 - std::countr_zero(slots);
  size_ = 0;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  UNSPOOL_CHECK(left >= 0 && right >= 0 && 2 * (size_ + 1) <= slots_.size());
  Slot& slot = slots_[slot_of(key_of(left, right))];
  if (slot.key == kFree) ++size_;
  slot = {key_of(left, right), merge};
}

const Merge* MergeTable::find(int32_t left, int32_t right) const {
  const Slot& slot = slots_[slot_of(key_of(left, right))];
  return slot.key == kFree ? nullptr : &slot.merge;
}

size_t MergeTable::slot_of(uint64_t key) const {
  // Multiplicative hashing: the high bits of the product depend on every bit of the key.
  size_t at = shift_ == 64 ? 0 : key * 0x9E3779B97F4A7C15u >> shift_;
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

}  // namespace unspool
