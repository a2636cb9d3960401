#include "tokenizer/prefix_trie.h"

#include <algorithm>

namespace unspool {

// Level by level over the sorted texts: the texts below a node are a range of them.
PrefixTrie::PrefixTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  if (entries.empty()) return;
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> ranges = {{0, entries.size(), 0}};  // of the node of the same index
  nodes_.emplace_back();
  for (size_t index = 0; index < nodes_.size(); ++index) {
    auto [begin, end, depth] = ranges[index];
    while (begin < end && entries[begin].first.size() == depth) nodes_[index].value = entries[begin++].second;
    nodes_[index].first_child = static_cast<int32_t>(nodes_.size());
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      size_t next = begin;
      while (next < end && entries[next].first[depth] == byte) ++next;
      Node node;
      node.byte = static_cast<unsigned char>(byte);
      nodes_.push_back(node);
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[index].num_children;
      begin = next;
    }
  }
}

int32_t PrefixTrie::child(const Node& node, unsigned char byte) const {
  const auto begin = nodes_.begin() + node.first_child;
  const auto end = begin + node.num_children;
  const auto found = std::lower_bound(begin, end, byte, [](const Node& a, unsigned char b) { return a.byte < b; });
  return found != end && found->byte == byte ? static_cast<int32_t>(found - nodes_.begin()) : -1;
}

}  // namespace unspool
