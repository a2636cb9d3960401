#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>

#include "unicode/utf8.h"

namespace unspool {

int32_t BpeModel::character_id(std::string_view piece, size_t at, size_t& size_bytes) const {
  const unicode::Decoded character = unicode::decode(piece, at);
  size_bytes = character.size_bytes;
  if (character.code_point < character_ids_.size()) return character_ids_[character.code_point];
  return vocabulary_.find(piece.substr(at, size_bytes));
}

void BpeModel::split_into_symbols(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  bool after_unknown = false;
  for (size_t at = 0, size_bytes = 0; at < piece.size(); at += size_bytes) {
    int32_t id = character_id(piece, at, size_bytes);
    const bool unknown = id < 0;
    if (unknown) {
      if (unknown_id_ < 0 || (after_unknown && fuse_unknown_)) continue;
      id = unknown_id_;
    }
    after_unknown = unknown;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

// Joins the pair of the lowest rank, the leftmost of equals, until no pair merges. Symbols form a linked list in which
// the left symbol of a pair takes the joined token and the right one drops out (id -1), so each step takes log n.
void BpeModel::merge_symbols(Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& queue = scratch.queue_;
  const auto note = [&](int32_t position) {
    const Symbol& left = symbols[static_cast<size_t>(position)];
    const Merge* merge = merges_.find(left.id, symbols[static_cast<size_t>(left.next)].id);
    if (merge != nullptr) queue.push_back({merge->rank, position, merge->new_id});
    return merge != nullptr;
  };
  queue.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) note(static_cast<int32_t>(i));
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const Candidate top = queue.back();
    queue.pop_back();
    Symbol& left = symbols[static_cast<size_t>(top.position)];
    if (left.id < 0 || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    // Either symbol may have grown since this was noted.
    const Merge* merge = merges_.find(left.id, right.id);
    if (merge == nullptr || merge->new_id != top.new_id) continue;
    left.id = top.new_id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.position;
    if (left.previous >= 0 && note(left.previous)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
    if (left.next >= 0 && note(top.position)) std::push_heap(queue.begin(), queue.end(), std::greater<>());
  }
}

void BpeModel::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const int32_t id = vocabulary_.find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  split_into_symbols(piece, scratch);
  merge_symbols(scratch);
  for (const Symbol& symbol : scratch.symbols_) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace unspool
