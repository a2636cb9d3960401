// Finds the longest of many texts that starts at a place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace unspool {

class TokenTrie {
 public:
  struct Found {
    size_t begin;
    size_t end;
    int32_t id;
  };

  TokenTrie();
  // Of several ids for a text, the first holds. An empty text is never found.
  void add(std::string_view text, int32_t id);
  // The leftmost match at or after `from`, the longest of those; false where there is none.
  bool find(std::string_view text, size_t from, Found& found) const;

 private:
  struct Node {
    std::vector<std::pair<char, int32_t>> children;  // byte and node, few
    int32_t id = -1;                                 // of the text that ends here
  };
  int32_t child(int32_t node, char byte) const;  // -1 where absent

  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;  // by first byte: most places are passed by with one look
};

}  // namespace unspool
