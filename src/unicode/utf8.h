// UTF-8: decoding, encoding, and what becomes of bytes that are not UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unspool::unicode {

inline constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code_point;
  size_t size_bytes;
};

// The character at `at`. The text must be valid UTF-8 and `at` the start of a character in it.
inline Decoded decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// The character that ends at `end` > 0. The text must be valid UTF-8 and `end` the end of a character in it.
inline Decoded decode_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return decode(text, at);
}

void append(std::string& text, char32_t code_point);

// How the bytes at the start of a non-empty `bytes` stand to UTF-8.
enum class SequenceKind {
  kComplete,    // a character
  kIncomplete,  // the start of a character, cut off by the end of `bytes`
  kInvalid,     // can never become a character
};
struct Sequence {
  SequenceKind kind;
  size_t size_bytes;  // of the character, or of the longest part that could have begun one (at least 1)
};
Sequence next_sequence(std::string_view bytes);

bool is_valid(std::string_view bytes);
// `bytes` with every longest invalid part replaced with one U+FFFD, as Python's errors="replace" and Rust's
// from_utf8_lossy do.
std::string to_valid(std::string_view bytes);
// How many bytes at the end begin a character without completing it: 0 to 3.
size_t incomplete_suffix(std::string_view bytes);
// Characters of valid UTF-8.
size_t count_characters(std::string_view text);

}  // namespace unspool::unicode
