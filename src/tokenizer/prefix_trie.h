// Which of many texts a text begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace unspool {

// Built at once, then read: the children of a node lie side by side, sorted by byte.
class PrefixTrie {
 public:
  PrefixTrie() = default;
  // Texts and their values, not negative. Of equal texts the last one's value holds; empty ones are left out.
  explicit PrefixTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  // Calls visit(end, value) for every text that `text` has at `at`, the shortest first; `end` is where it ends.
  template <class Visit>
  void visit_prefixes(std::string_view text, size_t at, Visit visit) const {
    int32_t node = nodes_.empty() ? -1 : 0;
    while (node >= 0 && at < text.size()) {
      node = child(nodes_[static_cast<size_t>(node)], static_cast<unsigned char>(text[at]));
      ++at;
      if (node >= 0 && nodes_[static_cast<size_t>(node)].value >= 0) visit(at, nodes_[static_cast<size_t>(node)].value);
    }
  }

 private:
  struct Node {
    int32_t first_child = 0;
    uint16_t num_children = 0;
    unsigned char byte = 0;  // that leads here
    int32_t value = -1;      // of the text that ends here
  };
  int32_t child(const Node& node, unsigned char byte) const;  // -1 where absent

  std::vector<Node> nodes_;
};

}  // namespace unspool
