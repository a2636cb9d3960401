// format(value, spec): Python's mini-language.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "jinja/string_format.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

constexpr std::string_view kAligns = "<>=^";
// Enough for any template; more would be a way to ask for gigabytes.
constexpr size_t kMaxWidth = 1'000'000;
constexpr int kMaxPrecision = 100;

[[noreturn]] void fail_spec(std::string_view spec, const Value& value) {
  fail(fmt::format("Invalid format specifier '{}' for object of type '{}'", spec, type_name(value)));
}

size_t read_number(std::string_view& rest) {
  size_t value = 0;
  while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
    value = value * 10 + static_cast<size_t>(rest[0] - '0');
    if (value > kMaxWidth) fail(TemplateError::Kind::kLimit, "a format asks for too much");
    rest.remove_prefix(1);
  }
  return value;
}

FormatSpec read_spec(std::string_view spec, const Value& value) {
  FormatSpec out;
  std::string_view rest = spec;
  const auto take_if = [&](std::string_view characters) {
    if (rest.empty() || characters.find(rest[0]) == std::string_view::npos) return '\0';
    const char c = rest[0];
    rest.remove_prefix(1);
    return c;
  };
  if (!rest.empty()) {
    const size_t size = unicode::decode(rest, 0).size_bytes;
    if (rest.size() > size && kAligns.find(rest[size]) != std::string_view::npos) {
      out.fill = rest.substr(0, size);
      rest.remove_prefix(size);
    }
  }
  out.align = take_if(kAligns);
  if (const char sign = take_if("+- ")) out.sign = sign;
  out.is_alternate = take_if("#") != '\0';
  if (take_if("0") != '\0' && out.align == '\0') {
    out.fill = "0";
    out.align = value.is_string() ? '<' : '=';
  }
  out.width = read_number(rest);
  out.grouping = take_if(",_");
  if (take_if(".") != '\0') {
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') fail("Format specifier missing precision");
    out.precision = static_cast<int>(read_number(rest));
  }
  if (!rest.empty()) {
    out.type = rest[0];
    rest.remove_prefix(1);
  }
  if (!rest.empty()) fail_spec(spec, value);
  return out;
}

std::string grouped(const std::string& digits, char separator, size_t group) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

Text aligned(const Text& sign, const Text& body, const FormatSpec& spec, char default_align) {
  const char align = spec.align == '\0' ? default_align : spec.align;
  Text all = sign;
  all.append(body);
  const size_t size = unicode::count_characters(all.view());
  if (size >= spec.width) return all;
  const size_t space = spec.width - size;
  const Text fill(spec.fill);
  if (align == '<') return pad(all, 0, space, fill);
  if (align == '^') return pad(all, space / 2, space - space / 2, fill);
  if (align == '>') return pad(all, space, 0, fill);
  Text out = sign;
  out.append(pad(body, space, 0, fill));
  return out;
}

Text format_number(const Value& value, FormatSpec spec, std::string_view text) {
  const auto integer = value.as_integer();
  bool is_negative;
  std::string digits;
  const bool as_float = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != '\0';
  if (integer && !as_float) {
    if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
    if (spec.type == 'c') {
      std::string character;
      if (*integer < 0 || *integer > 0x10FFFF) fail("%c arg not in range(0x110000)");
      unicode::append(character, static_cast<char32_t>(*integer));
      return aligned({}, Text(character), spec, '<');
    }
    if (std::string_view("bdoxXn").find(spec.type) == std::string_view::npos && spec.type != '\0') {
      fail(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
    }
    is_negative = *integer < 0;
    digits = format_integer(*integer, spec.type, false);
  } else {
    const double number = *value.as_number();
    is_negative = std::signbit(number) && !std::isnan(number);
    if (!as_float && spec.type != '\0' && spec.type != 'n') {
      fail(fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
    }
    digits = format_float(std::fabs(number), spec.type, spec.precision, spec.is_alternate);
  }
  if (digits.starts_with('-')) digits.erase(0, 1);
  if (spec.grouping != '\0') {
    const bool is_binary = std::string_view("boxX").find(spec.type) != std::string_view::npos && spec.type != '\0';
    if (is_binary && spec.grouping == ',') fail(fmt::format("Cannot specify ',' with '{}'.", spec.type));
    if (spec.fill == "0" && spec.align == '=') fail_unsupported(fmt::format("the format '{}' is not supported", text));
    digits = grouped(digits, spec.grouping, is_binary ? 4 : 3);
  }
  std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.is_alternate && integer && !as_float) {
    if (spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b')
      sign += std::string("0") + spec.type;
  }
  return aligned(Text(sign), Text(digits), spec, '>');
}

}  // namespace

std::string format_integer(Integer value, char type, bool is_alternate) {
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  if (base == 10) return integer_text(value);
  std::string digits;
  const bool is_negative = value < 0;
  for (; value != 0 || digits.empty(); value /= base) {
    const int digit = std::abs(static_cast<int>(value % base));
    digits.insert(digits.begin(), (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[digit]);
  }
  if (is_alternate) digits.insert(0, std::string("0") + type);
  return (is_negative ? "-" : "") + digits;
}

std::string format_float(double value, char type, int precision, bool is_alternate) {
  if (type == '%') return format_float(value * 100, 'f', precision, is_alternate) + "%";
  const bool is_upper = type == 'E' || type == 'F' || type == 'G';
  if (!std::isfinite(value)) {
    const std::string text = number_text(value);
    return !is_upper ? text : text == "nan" ? "NAN" : text == "inf" ? "INF" : "-INF";
  }
  if (precision > kMaxPrecision) fail(TemplateError::Kind::kLimit, "a format asks for too much");
  if (type == '\0' && precision < 0) return number_text(value);
  char conversion = type == '\0' || type == 'n' ? 'g' : type;
  std::array<char, 512> buffer;  // 309 digits before the point and kMaxPrecision after it
  const std::string format = std::string(is_alternate ? "%#.*" : "%.*") + conversion;
  const int size = std::snprintf(buffer.data(), buffer.size(), format.c_str(), precision < 0 ? 6 : precision, value);
  std::string text(buffer.data(), static_cast<size_t>(size));
  // Without a type, a number without fraction still looks like a float.
  if (type == '\0' && text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

Text format_value(const Value& value, std::string_view spec, Interpreter& interpreter) {
  if (spec.empty()) return to_text(value, interpreter);
  if (value.as_number() && !value.is_bool()) {
    const FormatSpec parsed = read_spec(spec, value);
    interpreter.budget().spend(static_cast<int64_t>(parsed.width / 8));
    return format_number(value, parsed, spec);
  }
  if (value.is_bool()) {
    const FormatSpec parsed = read_spec(spec, value);
    interpreter.budget().spend(static_cast<int64_t>(parsed.width / 8));
    if (parsed.type != '\0' && parsed.type != 's') return format_number(value, parsed, spec);
    if (parsed.type == 's') fail("Unknown format code 's' for object of type 'bool'");
    return format_number(value, parsed, spec);
  }
  if (!value.is_string()) {
    fail(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
  }
  const FormatSpec parsed = read_spec(spec, value);
  if (parsed.type != '\0' && parsed.type != 's') {
    fail(fmt::format("Unknown format code '{}' for object of type 'str'", parsed.type));
  }
  if (parsed.sign != '-') fail("Sign not allowed in string format specifier");
  if (parsed.align == '=') fail("'=' alignment not allowed in string format specifier");
  interpreter.budget().spend(static_cast<int64_t>(parsed.width / 8));
  Text text = value.text();
  if (parsed.precision >= 0) {
    text = text.slice(0, character_offset(text.view(), static_cast<size_t>(parsed.precision)));
  }
  return aligned({}, text, parsed, '<');
}

}  // namespace unspool::jinja
