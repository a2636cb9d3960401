// The one UTF-8 question that JSON and the log ask.
#pragma once

#include <cstddef>
#include <string_view>

namespace unspool {

// The length of the UTF-8 sequence at the start of `text` (not empty), or 0 where it is not valid (overlong forms,
// surrogates and truncated sequences are not).
inline size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (lead == 0xED && byte(1) >= 0xA0) return 0;  // surrogate
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (lead == 0xF0 && byte(1) < 0x90) return 0;   // overlong
    if (lead == 0xF4 && byte(1) >= 0x90) return 0;  // beyond U+10FFFF
    return continues(1) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace unspool
