#include "protocol/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace unspool::python {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kSpace = " \t\n\r\v\f";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view strip(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Drops the underscores that Python allows between digits; nullopt where one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

// One UTF-8 sequence at the start of `bytes`: how many bytes belong together and whether they are a character. A broken
// start is as long as it stays a prefix of some character, as Unicode's "maximal subpart" has it.
struct Sequence {
  size_t length;
  bool valid;
};

Sequence sequence(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {1, true};
  size_t need = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i <= need; ++i) {
    if (i == bytes.size()) return {i, false};
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c < low || c > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {need + 1, true};
}

template <class Values, class Show>
std::string list(const Values& values, Show show) {
  std::string out = "[";
  for (const auto& value : values) {
    if (out.size() > 1) out += ", ";
    out += show(value);
  }
  return out + "]";
}

}  // namespace

std::string repr(std::string_view utf8) {
  const char quote = utf8.find('\'') != std::string_view::npos && utf8.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : utf8) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string out = fmt::format("{}", value);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string repr(std::span<const int64_t> values) {
  return list(values, [](int64_t v) { return std::to_string(v); });
}

std::string repr(const std::vector<std::string>& values) {
  return list(values, [](const std::string& v) { return repr(std::string_view(v)); });
}

std::optional<int64_t> parse_int(std::string_view text) {
  auto digits = without_underscores(strip(text));
  if (!digits) return std::nullopt;
  if (digits->starts_with('+')) {
    digits->erase(0, 1);
    if (digits->empty() || !is_digit((*digits)[0])) return std::nullopt;
  }
  int64_t value = 0;
  const char* last = digits->data() + digits->size();
  const auto result = std::from_chars(digits->data(), last, value);
  if (result.ec != std::errc() || result.ptr != last) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  auto digits = without_underscores(strip(text));
  if (!digits || digits->empty()) return std::nullopt;
  bool negative = false;
  if ((*digits)[0] == '+' || (*digits)[0] == '-') {
    negative = (*digits)[0] == '-';
    digits->erase(0, 1);
    if (digits->empty() || (*digits)[0] == '+' || (*digits)[0] == '-') return std::nullopt;
  }
  double value = 0;
  const char* last = digits->data() + digits->size();
  const auto result = std::from_chars(digits->data(), last, value);  // takes "inf", "infinity" and "nan" in any case
  if (result.ptr != last) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // Python rounds: to zero or to infinity.
    const size_t exponent = digits->find_first_of("eE");
    const bool small = exponent != std::string::npos && exponent + 1 < digits->size() && (*digits)[exponent + 1] == '-';
    value = small ? 0.0 : HUGE_VAL;
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

int64_t length(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return !is_continuation(c); });
}

std::string_view first_characters(std::string_view utf8, int64_t count) {
  size_t i = 0;
  while (i < utf8.size() && (is_continuation(utf8[i]) || count-- > 0)) ++i;
  return utf8.substr(0, i);
}

std::string_view last_characters(std::string_view utf8, int64_t count) {
  size_t i = utf8.size();
  while (i > 0 && count > 0) count -= is_continuation(utf8[--i]) ? 0 : 1;
  return utf8.substr(i);
}

std::string decode_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto [size, valid] = sequence(bytes);
    out += valid ? bytes.substr(0, size) : kReplacement;
    bytes.remove_prefix(size);
  }
  return out;
}

}  // namespace unspool::python
