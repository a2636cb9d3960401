// What Python's str thinks of characters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace unspool::jinja {

bool is_space(char32_t code_point);  // str.isspace
// Bytes of space at the start and at the end.
size_t leading_space(std::string_view text);
size_t trailing_space(std::string_view text);

// Where the character of that number begins, or the end of the text. `text` is valid UTF-8.
size_t character_offset(std::string_view text, size_t index);

// int(text, base) of plain digits; nullopt where it is none or beyond 128 bits.
std::optional<Integer> parse_integer(std::string_view digits, int base);

}  // namespace unspool::jinja
