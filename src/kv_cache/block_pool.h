// Which blocks are in use, by how many sequences, and in which order the free ones are used again.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kv_cache/block_table.h"

namespace unspool {

// Free blocks stand in a list; allocate() takes the first. Those whose content is worth keeping stand longest free
// first, and until one is taken a prefix hit may bring it back with retain(). Those that hold nothing of use go to the
// front: they are used again before a block that was never touched, and so memory grows only by what the cache keeps.
class BlockPool {
 public:
  explicit BlockPool(int num_blocks);

  int num_blocks() const { return num_blocks_; }
  int num_free() const { return num_free_; }
  int ref_count(BlockId block) const { return refs_[block]; }

  BlockId allocate();  // with one reference; kNoBlock when none is free
  void retain(BlockId block);
  void release(BlockId block, bool keep_content);

  // Keeps a block out of the list until unpin_all(), references or not: the source of a copy that the planned step
  // makes.
  void pin(BlockId block);
  void unpin_all();

  // Violations, empty when all is well. `expected_refs` has the references that the tables hold, one a block.
  std::vector<std::string> validate(std::span<const int> expected_refs) const;

 private:
  void push_free(BlockId block, bool keep_content);
  void unlink(BlockId block);
  bool linked(BlockId block) const { return next_[block] != kNoBlock; }

  int num_blocks_;
  int num_free_ = 0;
  std::vector<int> refs_;
  std::vector<int> pins_;
  std::vector<BlockId> pinned_;
  // A ring through the sentinel num_blocks_; kNoBlock where a block is not in the list.
  std::vector<BlockId> next_;
  std::vector<BlockId> previous_;
};

}  // namespace unspool
