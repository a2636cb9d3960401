// The accounting of the paged KV cache: who holds which block, and which blocks a new prompt can begin with. No tensors
// here.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv_cache/block_pool.h"
#include "kv_cache/block_table.h"
#include "kv_cache/prefix_index.h"
#include "kv_cache/token_view.h"

namespace unspool {

struct KvCacheConfig {
  int num_blocks = 0;
  int block_size = 16;
  bool enable_prefix_caching = true;
};

class KvCacheManager {
 public:
  KvCacheManager(KvCacheConfig config, uint64_t hash_seed);

  int block_size() const { return config_.block_size; }
  int num_blocks() const { return pool_.num_blocks(); }
  int num_free_blocks() const { return pool_.num_free(); }
  double usage() const;  // 0..1, of blocks that sequences hold
  int blocks_for(int num_tokens) const { return (num_tokens + config_.block_size - 1) / config_.block_size; }

  // Gives an empty table the longest cached prefix of at most `max_tokens` tokens. Returns its length, whole blocks.
  int match_prefix(const TokenView& tokens, std::string_view salt, int max_tokens, BlockTable& table);

  // Makes positions [start, end) writable: appends blocks, and puts a copy in the place of a partial block that others
  // hold too. False where the free blocks do not suffice; then nothing has changed.
  bool reserve(BlockTable& table, int start, int end);
  // The largest `end` that reserve(table, start, end) can grant; `start` where there is none.
  int reservable_end(const BlockTable& table, int start) const;

  // A step that computed positions below `num_computed` has succeeded: its full blocks become prefix hits, unless the
  // cache was invalidated since the table took its first block.
  void commit(BlockTable& table, const TokenView& tokens, std::string_view salt, int num_computed);
  // The planned step is over, one way or the other.
  void end_step() { pool_.unpin_all(); }

  // `to`, empty, shares all blocks of `from`. Whoever writes a shared block first gets a copy (reserve).
  void fork(const BlockTable& from, BlockTable& to);
  // Gives the blocks back. What they hold stays hittable up to `tokens_worth_keeping`; blocks past it are used again
  // first.
  void release(BlockTable& table, int tokens_worth_keeping = std::numeric_limits<int>::max());

  // Nothing computed so far can ever be hit again, tables in use included: after a reset or a change of weights.
  void invalidate_prefixes();
  int num_cached_blocks() const { return index_.size(); }

  // `tables` are all that exist.
  std::vector<std::string> validate(std::span<const BlockTable* const> tables) const;

 private:
  bool must_copy(const BlockTable& table, int start) const;
  BlockId take_block();

  KvCacheConfig config_;
  BlockPool pool_;
  PrefixIndex index_;
  uint64_t generation_ = 1;
  std::vector<int32_t> block_tokens_;  // scratch, one block
};

}  // namespace unspool
