#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>

#include "unicode/utf8.h"

namespace unspool {

class BpeModel::Scratch final : public TokenModel::Scratch {
 public:
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;  // a heap, the first merge on top
};

std::unique_ptr<TokenModel::Scratch> BpeModel::make_scratch() const {
  return std::make_unique<Scratch>();
}

int32_t BpeModel::character_id(std::string_view piece, size_t at, size_t& size_bytes) const {
  const unicode::Decoded character = unicode::decode(piece, at);
  size_bytes = character.size_bytes;
  if (character.code_point < character_ids_.size()) return character_ids_[character.code_point];
  return vocabulary_.find(piece.substr(at, size_bytes));
}

// An unknown token waits for the next known character: byte tokens that come between go before it, as in PyPI's
// `tokenizers`.
void BpeModel::split_into_symbols(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&](int32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  };
  bool unknown_waits = false;
  for (size_t at = 0, size_bytes = 0; at < piece.size(); at += size_bytes) {
    const int32_t id = character_id(piece, at, size_bytes);
    if (id < 0 && byte_fallback_ && byte_tokens_.spell(piece.substr(at, size_bytes), add)) continue;
    if (id < 0 && unknown_id_ < 0) continue;
    if (unknown_waits && (id >= 0 || !fuse_unknown_)) add(unknown_id_);
    unknown_waits = id < 0;
    if (id >= 0) add(id);
  }
  if (unknown_waits) add(unknown_id_);
  if (!symbols.empty()) symbols.back().next = -1;
}

// Joins the pair of the lowest rank, the leftmost of equals, until no pair merges. Symbols form a linked list in which
// the left symbol of a pair takes the joined token and the right one drops out (id -1), so each step takes log n.
void BpeModel::merge_symbols(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
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

void BpeModel::encode(std::string_view piece, TokenModel::Scratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const int32_t id = vocabulary_.find(piece); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  auto& own = static_cast<Scratch&>(scratch);
  split_into_symbols(piece, own);
  merge_symbols(own);
  for (const Symbol& symbol : own.symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace unspool
