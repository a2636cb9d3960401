// User-perceived characters (extended grapheme clusters).
#pragma once

#include <cstddef>
#include <string_view>

namespace unspool::unicode {

// Where the grapheme that begins at `at` ends. The text must be valid UTF-8 and `at` a place where one begins.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace unspool::unicode
