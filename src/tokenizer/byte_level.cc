#include "tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "unicode/utf8.h"

namespace unspool {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// Printable Latin-1 bytes are their own characters; the other 68 get U+0100 on, in order.
constexpr std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

constexpr std::array<char32_t, 256> kAlphabet = make_alphabet();

constexpr std::array<int16_t, kByteLevelEnd> make_bytes() {
  std::array<int16_t, kByteLevelEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, kByteLevelEnd> kBytes = make_bytes();

}  // namespace

void append_byte_level(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) unicode::append(text, kAlphabet[static_cast<unsigned char>(byte)]);
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const unicode::Decoded character = unicode::decode(text, at);
    if (character.code_point >= kByteLevelEnd || kBytes[character.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[character.code_point]));
    at += character.size_bytes;
  }
  return bytes;
}

}  // namespace unspool
