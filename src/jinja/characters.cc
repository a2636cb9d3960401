#include "jinja/characters.h"

#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool::jinja {

bool is_space(char32_t code_point) {
  // Unicode's White_Space and the four separators of ASCII.
  return unicode::is_space(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto [code_point, size] = unicode::decode(text, at);
    if (!is_space(code_point)) break;
    at += size;
  }
  return at;
}

size_t trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const auto [code_point, size] = unicode::decode_before(text, end);
    if (!is_space(code_point)) break;
    end -= size;
  }
  return text.size() - end;
}

size_t character_offset(std::string_view text, size_t index) {
  size_t at = 0;
  while (index-- > 0 && at < text.size()) at += unicode::decode(text, at).size_bytes;
  return at;
}

std::optional<Integer> parse_integer(std::string_view digits, int base) {
  if (digits.empty()) return std::nullopt;
  Integer value = 0;
  for (const char c : digits) {
    const char lower = static_cast<char>(c | 0x20);
    const int digit = c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : base;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Integer{base}, &value) || __builtin_add_overflow(value, Integer{digit}, &value)) {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace unspool::jinja
