// The cache blocks of one sequence, in order of position.
#pragma once

#include <cstdint>
#include <vector>

namespace unspool {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

// Names the content of a cached block together with everything before it; 0 is the empty prefix. Never reused.
using ContentId = uint64_t;

// Changed by KvCacheManager alone.
struct BlockTable {
  std::vector<BlockId> blocks;

  // The step being planned: blocks from index `first_new` on were handed out for it, and the first of them starts as a
  // copy of `copy_from` where that is set.
  int first_new = 0;
  BlockId copy_from = kNoBlock;

  // Prefix caching: the first `num_indexed` blocks have been offered to the index, and end in content `last_content`.
  int num_indexed = 0;
  ContentId last_content = 0;
  uint64_t generation = 0;  // of the cache when the first block was taken
};

}  // namespace unspool
