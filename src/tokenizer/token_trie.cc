#include "tokenizer/token_trie.h"

namespace unspool {

TokenTrie::TokenTrie() {
  roots_.fill(-1);
}

int32_t TokenTrie::child(int32_t node, char byte) const {
  for (const auto& [child_byte, child_node] : nodes_[static_cast<size_t>(node)].children) {
    if (child_byte == byte) return child_node;
  }
  return -1;
}

void TokenTrie::add(std::string_view text, int32_t id) {
  if (text.empty()) return;
  const auto new_node = [&] {
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
  };
  int32_t& root = roots_[static_cast<unsigned char>(text[0])];
  if (root < 0) root = new_node();
  int32_t node = root;
  for (const char byte : text.substr(1)) {
    int32_t next = child(node, byte);
    if (next < 0) {
      next = new_node();
      nodes_[static_cast<size_t>(node)].children.emplace_back(byte, next);
    }
    node = next;
  }
  Node& last = nodes_[static_cast<size_t>(node)];
  if (last.id < 0) last.id = id;
}

bool TokenTrie::find(std::string_view text, size_t from, Found& found) const {
  if (nodes_.empty()) return false;
  for (size_t begin = from; begin < text.size(); ++begin) {
    int32_t node = roots_[static_cast<unsigned char>(text[begin])];
    found.id = -1;
    for (size_t end = begin + 1; node >= 0; ++end) {
      if (const int32_t id = nodes_[static_cast<size_t>(node)].id; id >= 0) found = {begin, end, id};
      if (end == text.size()) break;
      node = child(node, text[end]);
    }
    if (found.id >= 0) return true;
  }
  return false;
}

}  // namespace unspool
