#include "tokenizer/byte_fallback.h"

#include <fmt/format.h>

namespace unspool {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<unsigned char> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const int high = piece[3] == '+' ? 0 : hex_value(piece[3]);  // Rust's from_str_radix takes a sign
  const int low = hex_value(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

ByteTokens::ByteTokens(const Vocabulary& vocabulary) {
  for (size_t byte = 0; byte < ids_.size(); ++byte) ids_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte));
}

}  // namespace unspool
