// What sentencepiece compiled its normalisation rules into: a trie of texts, and what each becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unspool {

class PrecompiledCharsmap {
 public:
  // `blob`: the trie's size in bytes (4 bytes, little-endian), the trie, then texts that end with zeros. Errors:
  // kInvalidArgument where it is not that.
  static Result<PrecompiledCharsmap> parse(std::string_view blob);

  // What the shortest text of the trie that `text` begins with becomes; nullopt where there is none.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  bool child(size_t& node, unsigned char byte, bool& ends) const;

  std::vector<uint32_t> units_;  // a double array, as darts-clone builds it
  std::string texts_;
};

}  // namespace unspool
