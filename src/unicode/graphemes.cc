#include "unicode/graphemes.h"

#include <utf8proc.h>

#include "unicode/utf8.h"

namespace unspool::unicode {

size_t grapheme_end(std::string_view text, size_t at) {
  Decoded character = decode(text, at);
  utf8proc_int32_t state = 0;
  for (at += character.size_bytes; at < text.size(); at += character.size_bytes) {
    const auto before = static_cast<utf8proc_int32_t>(character.code_point);
    character = decode(text, at);
    if (utf8proc_grapheme_break_stateful(before, static_cast<utf8proc_int32_t>(character.code_point), &state)) break;
  }
  return at;
}

}  // namespace unspool::unicode
