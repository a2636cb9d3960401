#include "jinja/python_number.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "jinja/characters.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  text.remove_prefix(leading_space(text));
  return text.substr(0, text.size() - trailing_space(text));
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Without the underscores between digits; nullopt where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text, bool may_lead) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool follows = i > 0 ? text[i - 1] != '_' : may_lead;
    if (!follows || i + 1 == text.size()) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<Integer> parse_python_integer(std::string_view text, int base) {
  text = stripped(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  bool has_prefix = false;
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int prefix_base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix_base != 0 && (base == 0 || base == prefix_base)) {
      base = prefix_base;
      text.remove_prefix(2);
      has_prefix = true;
    }
  }
  const auto digits = without_underscores(text, has_prefix);
  if (!digits || digits->empty()) return std::nullopt;
  if (base == 0) {
    base = 10;
    // 0 may stand alone, but not before other digits.
    if ((*digits)[0] == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
  }
  if (const auto value = parse_integer(*digits, base)) return is_negative ? -*value : *value;
  const bool is_number = std::all_of(digits->begin(), digits->end(),
                                     [&](char c) { return parse_integer(std::string_view(&c, 1), base).has_value(); });
  if (is_number) fail_unsupported("integers beyond 128 bits are not supported");
  return std::nullopt;
}

std::optional<double> parse_float(std::string_view text) {
  text = stripped(text);
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const bool is_negative = lower.starts_with('-');
  const std::string_view name = std::string_view(lower).substr(is_negative || lower.starts_with('+') ? 1 : 0);
  const double sign = is_negative ? -1 : 1;
  if (name == "inf" || name == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (name == "nan") return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  for (size_t i = 0; i < lower.size(); ++i) {
    if (lower[i] == '_' && (i == 0 || i + 1 == lower.size() || !is_digit(lower[i - 1]) || !is_digit(lower[i + 1]))) {
      return std::nullopt;
    }
  }
  std::erase(lower, '_');
  if (lower.empty() || lower.find_first_not_of("0123456789+-.e") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(lower.c_str(), &end);
  if (end != lower.c_str() + lower.size()) return std::nullopt;
  return value;
}

}  // namespace unspool::jinja
