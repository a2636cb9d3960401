#include "kv_cache/kv_cache_manager.h"

#include <algorithm>

#include "base/check.h"

namespace unspool {

KvCacheManager::KvCacheManager(KvCacheConfig config, uint64_t hash_seed)
    : config_(config),
      pool_(config.num_blocks),
      index_(config.num_blocks, config.block_size, hash_seed),
      block_tokens_(config.block_size) {}

double KvCacheManager::usage() const {
  return static_cast<double>(pool_.num_blocks() - pool_.num_free()) / pool_.num_blocks();
}

int KvCacheManager::match_prefix(const TokenView& tokens, std::string_view salt, int max_tokens, BlockTable& table) {
  UNSPOOL_CHECK(table.blocks.empty(), "{} blocks held", table.blocks.size());
  table = {};
  table.generation = generation_;
  if (!config_.enable_prefix_caching) return 0;
  const int max_blocks = std::min(max_tokens, tokens.size()) / config_.block_size;
  for (int i = 0; i < max_blocks; ++i) {
    tokens.copy(i * config_.block_size, config_.block_size, block_tokens_.data());
    const auto hit = index_.find(table.last_content, salt, block_tokens_);
    if (!hit) break;
    pool_.retain(hit->block);
    table.blocks.push_back(hit->block);
    table.last_content = hit->content;
  }
  table.num_indexed = table.first_new = static_cast<int>(table.blocks.size());
  return table.num_indexed * config_.block_size;
}

bool KvCacheManager::must_copy(const BlockTable& table, int start) const {
  const size_t index = static_cast<size_t>(start / config_.block_size);
  return index < table.blocks.size() && pool_.ref_count(table.blocks[index]) > 1;
}

BlockId KvCacheManager::take_block() {
  const BlockId block = pool_.allocate();
  index_.forget(block);
  return block;
}

bool KvCacheManager::reserve(BlockTable& table, int start, int end) {
  const int held = static_cast<int>(table.blocks.size());
  const bool copy = must_copy(table, start);
  const int wanted = std::max(blocks_for(end), held);
  if (wanted - held + (copy ? 1 : 0) > pool_.num_free()) return false;
  if (held == 0) table.generation = generation_;
  table.first_new = held;
  table.copy_from = kNoBlock;
  if (copy) {
    // Only the last block can be both partial and shared. The source is pinned: should its other holders be preempted
    // while this step is planned, it must not be handed out, for blocks are zeroed before they are copied.
    UNSPOOL_CHECK(start / config_.block_size == held - 1, "position {} of {} blocks", start, held);
    table.first_new = held - 1;
    table.copy_from = table.blocks.back();
    pool_.pin(table.copy_from);
    table.blocks.back() = take_block();
    pool_.release(table.copy_from, true);
  }
  while (static_cast<int>(table.blocks.size()) < wanted) table.blocks.push_back(take_block());
  // The pool hands out what was released, last block first: in ascending order they are read in long runs again.
  std::sort(table.blocks.begin() + held, table.blocks.end());
  return true;
}

int KvCacheManager::reservable_end(const BlockTable& table, int start) const {
  const int free = pool_.num_free() - (must_copy(table, start) ? 1 : 0);
  if (free < 0) return start;
  return std::max(start, (static_cast<int>(table.blocks.size()) + free) * config_.block_size);
}

void KvCacheManager::commit(BlockTable& table, const TokenView& tokens, std::string_view salt, int num_computed) {
  table.first_new = static_cast<int>(table.blocks.size());
  table.copy_from = kNoBlock;
  if (!config_.enable_prefix_caching || table.generation != generation_) return;
  const int full = num_computed / config_.block_size;
  for (int i = table.num_indexed; i < full; ++i) {
    tokens.copy(i * config_.block_size, config_.block_size, block_tokens_.data());
    table.last_content = index_.insert(table.blocks[i], table.last_content, salt, block_tokens_);
  }
  table.num_indexed = std::max(table.num_indexed, full);
}

void KvCacheManager::fork(const BlockTable& from, BlockTable& to) {
  UNSPOOL_CHECK(to.blocks.empty(), "{} blocks held", to.blocks.size());
  to = from;
  to.first_new = static_cast<int>(to.blocks.size());
  to.copy_from = kNoBlock;
  for (const BlockId block : to.blocks) pool_.retain(block);
}

void KvCacheManager::release(BlockTable& table, int tokens_worth_keeping) {
  // Last block first: of one prefix, the tail is used again before what it depends on.
  for (int i = static_cast<int>(table.blocks.size()) - 1; i >= 0; --i) {
    const BlockId block = table.blocks[i];
    if (i * config_.block_size >= tokens_worth_keeping && pool_.ref_count(block) == 1) index_.forget(block);
    pool_.release(block, index_.contains(block));
  }
  table = {};
}

void KvCacheManager::invalidate_prefixes() {
  ++generation_;
  index_.clear();
}

std::vector<std::string> KvCacheManager::validate(std::span<const BlockTable* const> tables) const {
  std::vector<int> refs(pool_.num_blocks(), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks) ++refs[block];
  }
  auto violations = pool_.validate(refs);
  for (auto& violation : index_.validate()) violations.push_back(std::move(violation));
  return violations;
}

}  // namespace unspool
