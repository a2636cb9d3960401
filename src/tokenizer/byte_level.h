// The alphabet of byte-level BPE: one printable character for each byte, so that a vocabulary can be text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace unspool {

// Code points of the alphabet lie below this.
inline constexpr char32_t kByteLevelEnd = 0x144;

// Appends the character of each byte of `bytes`.
void append_byte_level(std::string& text, std::string_view bytes);

// The bytes that valid UTF-8 `text` stands for; nullopt where a character is not of the alphabet.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace unspool
