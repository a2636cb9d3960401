#include "tokenizer/precompiled_charsmap.h"

#include <cstring>

#include "unicode/utf8.h"

namespace unspool {
namespace {

// The fields of a unit.
uint32_t label_of(uint32_t unit) {
  return unit & (uint32_t{1} << 31 | 0xFF);
}
size_t offset_of(uint32_t unit) {
  return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
}
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
size_t value_of(uint32_t unit) {
  return unit & ~(uint32_t{1} << 31);
}

Error malformed(const char* what) {
  return invalid_argument(std::string("precompiled_charsmap: ") + what);
}

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::parse(std::string_view blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof trie_bytes) return malformed("expected at least 4 bytes");
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  const size_t num_units = trie_bytes / sizeof(uint32_t);
  if (num_units == 0 || num_units * sizeof(uint32_t) > blob.size()) return malformed("the trie is cut off");
  PrecompiledCharsmap map;
  map.units_.resize(num_units);
  std::memcpy(map.units_.data(), blob.data(), num_units * sizeof(uint32_t));
  map.texts_ = blob.substr(num_units * sizeof(uint32_t));
  if (!unicode::is_valid(map.texts_)) return malformed("its texts are not UTF-8");
  return map;
}

// Goes to the child of `node`; false where there is none. Nothing in the array is to be trusted.
bool PrecompiledCharsmap::child(size_t& node, unsigned char byte, bool& ends) const {
  node ^= byte;
  if (node >= units_.size()) return false;
  const uint32_t unit = units_[node];
  if (label_of(unit) != byte) return false;
  node ^= offset_of(unit);
  ends = has_leaf(unit) && node < units_.size();
  return true;
}

std::optional<std::string_view> PrecompiledCharsmap::find(std::string_view text) const {
  size_t node = offset_of(units_[0]);
  for (const char c : text) {
    bool ends = false;
    if (c == 0 || !child(node, static_cast<unsigned char>(c), ends)) return std::nullopt;
    if (!ends) continue;
    const size_t begin = value_of(units_[node]);
    if (begin > texts_.size()) return std::nullopt;
    const size_t end = std::min(texts_.find('\0', begin), texts_.size());
    const std::string_view found = std::string_view(texts_).substr(begin, end - begin);
    // A place within a character is the file's fault; the text must stay UTF-8.
    if (!unicode::is_valid(found)) return std::nullopt;
    return found;
  }
  return std::nullopt;
}

}  // namespace unspool
