#include "kv_cache/prefix_index.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace unspool {

PrefixIndex::PrefixIndex(int num_blocks, int block_size, uint64_t seed, int key_bits)
    : block_size_(static_cast<size_t>(block_size)),
      seed_(seed),
      mask_{key_bits >= 64 ? ~0ULL : (1ULL << key_bits) - 1, key_bits >= 128 ? ~0ULL : 0ULL},
      entries_(num_blocks),
      tokens_(static_cast<size_t>(num_blocks) * block_size) {}

PrefixIndex::Key PrefixIndex::key_of(ContentId parent, std::string_view salt, std::span<const int32_t> tokens) const {
  Hash128 hash = hash128(tokens.data(), tokens.size_bytes(), seed_ ^ parent);
  if (parent == 0 && !salt.empty()) hash = hash128(salt.data(), salt.size(), hash.low ^ hash.high);
  return {hash.low & mask_.low, hash.high & mask_.high};
}

bool PrefixIndex::same(BlockId block, ContentId parent, std::string_view salt, std::span<const int32_t> tokens) const {
  const Entry& entry = entries_[block];
  if (entry.parent != parent || (parent == 0 && entry.salt != salt)) return false;
  return std::equal(tokens.begin(), tokens.end(), tokens_.data() + static_cast<size_t>(block) * block_size_);
}

std::optional<PrefixIndex::Hit> PrefixIndex::find(ContentId parent, std::string_view salt,
                                                  std::span<const int32_t> tokens) const {
  const auto found = by_key_.find(key_of(parent, salt, tokens));
  if (found == by_key_.end() || !same(found->second, parent, salt, tokens)) return std::nullopt;
  return Hit{found->second, entries_[found->second].content};
}

ContentId PrefixIndex::insert(BlockId block, ContentId parent, std::string_view salt, std::span<const int32_t> tokens) {
  UNSPOOL_CHECK(tokens.size() == block_size_ && entries_[block].content == 0, "block {}", block);
  const Key key = key_of(parent, salt, tokens);
  const auto [found, inserted] = by_key_.try_emplace(key, block);
  if (!inserted) {
    if (same(found->second, parent, salt, tokens)) return entries_[found->second].content;
    return next_content_++;  // a collision: this content stays outside, and so does what follows it
  }
  entries_[block] = {key, next_content_++, parent, parent == 0 ? std::string(salt) : std::string()};
  std::copy(tokens.begin(), tokens.end(), tokens_.data() + static_cast<size_t>(block) * block_size_);
  return entries_[block].content;
}

void PrefixIndex::forget(BlockId block) {
  Entry& entry = entries_[block];
  if (entry.content == 0) return;
  by_key_.erase(entry.key);
  entry = {};
}

void PrefixIndex::clear() {
  for (const auto& [key, block] : by_key_) entries_[block] = {};
  by_key_.clear();
}

std::vector<std::string> PrefixIndex::validate() const {
  std::vector<std::string> violations;
  size_t entered = 0;
  for (size_t block = 0; block < entries_.size(); ++block) {
    const Entry& entry = entries_[block];
    if (entry.content == 0) continue;
    ++entered;
    const auto found = by_key_.find(entry.key);
    if (found == by_key_.end() || found->second != static_cast<BlockId>(block)) {
      violations.push_back(fmt::format("block {} is entered under a key that does not lead to it", block));
    }
  }
  if (entered != by_key_.size()) violations.push_back(fmt::format("{} entries, {} keys", entered, by_key_.size()));
  return violations;
}

}  // namespace unspool
