#include "jinja/string_literal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

// A hexadecimal number of exactly `count` digits at the start of `text`.
std::optional<char32_t> hex(std::string_view text, size_t count) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + std::min(count, text.size()), value, 16);
  if (code != std::errc() || end != text.data() + count) return std::nullopt;
  return value;
}

// What jinja2 makes of a backslash before a character beyond ASCII: it writes that character as an escape first, and
// the backslash then escapes the escape.
std::string escaped_escape(char32_t code_point) {
  const auto number = static_cast<uint32_t>(code_point);
  if (number < 0x100) return fmt::format("\\x{:02x}", number);
  if (number < 0x10000) return fmt::format("\\u{:04x}", number);
  return fmt::format("\\U{:08x}", number);
}

constexpr std::string_view kSimple = "\\'\"abfnrtv";
constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";

}  // namespace

std::string normalize_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
      continue;
    }
    out += '\n';
    if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
  }
  return out;
}

std::optional<std::string> unescape(std::string_view text, std::string& error) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const std::string_view rest = text.substr(++i);  // never empty: a backslash takes the next character with it
    const char c = rest[0];
    if (const size_t simple = kSimple.find(c); simple != std::string_view::npos) {
      out += kMeaning[simple];
    } else if (c == '\n') {
      // a line that goes on
    } else if (c >= '0' && c <= '7') {
      size_t digits = 1;
      while (digits < std::min<size_t>(3, rest.size()) && rest[digits] >= '0' && rest[digits] <= '7') ++digits;
      uint32_t value = 0;
      std::from_chars(rest.data(), rest.data() + digits, value, 8);
      unicode::append(out, value);
      i += digits - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const auto value = hex(rest.substr(1), digits);
      if (!value) {
        error = fmt::format("truncated \\{}{} escape", c, std::string(digits, 'X'));
        return std::nullopt;
      }
      if (*value > 0x10FFFF || (*value >= 0xD800 && *value < 0xE000)) {
        error = "illegal Unicode character";
        return std::nullopt;
      }
      unicode::append(out, *value);
      i += digits;
    } else if (c == 'N') {
      error = "\\N escapes are not supported";
      return std::nullopt;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      const auto [code_point, size] = unicode::decode(text, i);
      out += escaped_escape(code_point);
      i += size - 1;
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace unspool::jinja
