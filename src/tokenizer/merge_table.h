// The merges of a BPE model, by the pair of ids that they join.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unspool {

struct Merge {
  uint32_t rank;   // the lower, the earlier
  int32_t new_id;  // of the joined token
};

// Open addressing over 16-byte slots: one cache line a look-up, which is most of the time of encoding.
class MergeTable {
 public:
  // Forgets all merges and makes room for `num_merges`.
  void reset(size_t num_merges);
  // The last merge of a pair holds. Ids are not negative.
  void add(int32_t left, int32_t right, Merge merge);
  // nullptr where the pair does not merge.
  const Merge* find(int32_t left, int32_t right) const;
  size_t size() const { return size_; }

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair of ids that are not negative
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_ = std::vector<Slot>(1);  // a power of two, at most half full
  size_t size_ = 0;
  int shift_ = 64;  // 64 less the bits of a slot's number
};

}  // namespace unspool
