// From the content of a block, and all that stands before it, to the block that holds its keys and values.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv_cache/block_table.h"

namespace unspool {

// A hash only finds a candidate; a hit is compared in full: the block's tokens, the ContentId before it and, for the
// first block, the salt. A ContentId belongs to one chain of such comparisons, so a collision costs a miss and never
// serves another's content. Weight versions need no place in the key: the index is cleared when they change, and holds
// one at a time.
class PrefixIndex {
 public:
  // `seed` is random per process, so that clients cannot aim at collisions. `key_bits` is lowered by tests only.
  PrefixIndex(int num_blocks, int block_size, uint64_t seed, int key_bits = 128);

  struct Hit {
    BlockId block = kNoBlock;
    ContentId content = 0;
  };
  // `tokens` are one whole block. `salt` counts where `parent` is 0.
  std::optional<Hit> find(ContentId parent, std::string_view salt, std::span<const int32_t> tokens) const;
  // Enters `block` unless the same content is there already. Returns the content's id either way.
  ContentId insert(BlockId block, ContentId parent, std::string_view salt, std::span<const int32_t> tokens);
  bool contains(BlockId block) const { return entries_[block].content != 0; }
  void forget(BlockId block);  // before the block is used for something else; it need not be there
  void clear();
  int size() const { return static_cast<int>(by_key_.size()); }

  std::vector<std::string> validate() const;

 private:
  struct Key {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const { return key.low; }
  };
  struct Entry {
    Key key;
    ContentId content = 0;  // 0: not in the index
    ContentId parent = 0;
    std::string salt;
  };

  Key key_of(ContentId parent, std::string_view salt, std::span<const int32_t> tokens) const;
  bool same(BlockId block, ContentId parent, std::string_view salt, std::span<const int32_t> tokens) const;

  size_t block_size_;
  uint64_t seed_;
  Key mask_;
  ContentId next_content_ = 1;
  std::unordered_map<Key, BlockId, KeyHash> by_key_;
  std::vector<Entry> entries_;   // [num_blocks]
  std::vector<int32_t> tokens_;  // [num_blocks, block_size], of the entries
};

}  // namespace unspool
