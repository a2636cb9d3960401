#include "kv_cache/block_pool.h"

#include "base/check.h"

namespace unspool {

BlockPool::BlockPool(int num_blocks)
    : num_blocks_(num_blocks),
      refs_(num_blocks, 0),
      pins_(num_blocks, 0),
      next_(num_blocks + 1, kNoBlock),
      previous_(num_blocks + 1, kNoBlock) {
  UNSPOOL_CHECK(num_blocks > 0, "a cache of {} blocks", num_blocks);
  next_[num_blocks] = previous_[num_blocks] = num_blocks;
  for (BlockId block = 0; block < num_blocks; ++block) push_free(block, true);
}

BlockId BlockPool::allocate() {
  if (num_free_ == 0) return kNoBlock;
  const BlockId block = next_[num_blocks_];
  unlink(block);
  refs_[block] = 1;
  return block;
}

void BlockPool::retain(BlockId block) {
  if (linked(block)) unlink(block);
  ++refs_[block];
}

void BlockPool::release(BlockId block, bool keep_content) {
  UNSPOOL_CHECK(refs_[block] > 0, "block {} has no reference to release", block);
  if (--refs_[block] == 0 && pins_[block] == 0) push_free(block, keep_content);
}

void BlockPool::pin(BlockId block) {
  UNSPOOL_CHECK(refs_[block] > 0, "block {} is free", block);
  ++pins_[block];
  pinned_.push_back(block);
}

void BlockPool::unpin_all() {
  for (const BlockId block : pinned_) {
    if (--pins_[block] == 0 && refs_[block] == 0) push_free(block, true);
  }
  pinned_.clear();
}

void BlockPool::push_free(BlockId block, bool keep_content) {
  const BlockId before = keep_content ? previous_[num_blocks_] : num_blocks_;
  const BlockId after = next_[before];
  next_[before] = block;
  previous_[block] = before;
  next_[block] = after;
  previous_[after] = block;
  ++num_free_;
}

void BlockPool::unlink(BlockId block) {
  next_[previous_[block]] = next_[block];
  previous_[next_[block]] = previous_[block];
  next_[block] = previous_[block] = kNoBlock;
  --num_free_;
}

std::vector<std::string> BlockPool::validate(std::span<const int> expected_refs) const {
  std::vector<std::string> violations;
  int listed = 0;
  for (BlockId block = next_[num_blocks_]; block != num_blocks_ && listed <= num_blocks_; block = next_[block]) {
    ++listed;
    if (previous_[next_[block]] != block) violations.push_back(fmt::format("free list broken after block {}", block));
  }
  if (listed != num_free_) violations.push_back(fmt::format("{} blocks listed free, {} counted", listed, num_free_));
  for (BlockId block = 0; block < num_blocks_; ++block) {
    if (refs_[block] != expected_refs[block]) {
      violations.push_back(
          fmt::format("block {} has {} references, tables hold {}", block, refs_[block], expected_refs[block]));
    }
    if (linked(block) != (refs_[block] == 0 && pins_[block] == 0)) {
      violations.push_back(fmt::format("block {} with {} references and {} pins is {}listed free", block, refs_[block],
                                       pins_[block], linked(block) ? "" : "not "));
    }
  }
  return violations;
}

}  // namespace unspool
