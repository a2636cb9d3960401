// What a code point is, as the parts of PyPI's `tokenizers` see it (tools/make_unicode_tables.py says which part).
#pragma once

#include <cstdint>
#include <string>

#include "unicode/unicode_tables.h"

namespace unspool::unicode {

enum Property : uint16_t {
  kLetter = 1 << 0,                // \p{L} of Oniguruma
  kNumber = 1 << 1,                // \p{N} of Oniguruma
  kMark = 1 << 2,                  // \p{M} of Oniguruma
  kSpace = 1 << 3,                 // \s of Oniguruma and of Rust: White_Space
  kWord = 1 << 4,                  // \w of Rust's regex crate, which decides single_word
  kNumeric = 1 << 5,               // Rust's char::is_numeric, which decides Digits
  kNewerThanNormalForms = 1 << 6,  // assigned after the tables of the library's normal forms: they leave it alone
  kCombining = 1 << 7,             // what StripAccents takes away
  kNonspacing = 1 << 8,            // what BertNormalizer's strip_accents takes away
  kControl = 1 << 9,               // what BertNormalizer's clean_text takes away
  kPunctuation = 1 << 10,          // what Punctuation and BertPreTokenizer split at
};

// The properties of a code point, several bits of Property; none above U+10FFFF.
inline uint16_t properties(char32_t code_point) {
  if (code_point > 0x10FFFF) return 0;
  return kProperties[kBlockOfCodePoint[code_point / kCodePointsPerBlock]][code_point % kCodePointsPerBlock];
}

inline bool is_letter(char32_t code_point) {
  return (properties(code_point) & kLetter) != 0;
}
inline bool is_number(char32_t code_point) {
  return (properties(code_point) & kNumber) != 0;
}
inline bool is_mark(char32_t code_point) {
  return (properties(code_point) & kMark) != 0;
}
inline bool is_space(char32_t code_point) {
  return (properties(code_point) & kSpace) != 0;
}
inline bool is_word(char32_t code_point) {
  return (properties(code_point) & kWord) != 0;
}
inline bool is_numeric(char32_t code_point) {
  return (properties(code_point) & kNumeric) != 0;
}

inline bool is_punctuation(char32_t code_point) {
  return (properties(code_point) & kPunctuation) != 0;
}

// The script that UnicodeScripts sees in it, 0 where it goes with any other.
uint16_t script(char32_t code_point);

// Appends the lower case of one character, which may be two; the sigma at the end of a word is like any other.
void append_lower_case(std::string& text, char32_t code_point);

}  // namespace unspool::unicode
