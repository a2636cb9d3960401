// str() and repr().
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "unicode/python_str.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

// How repr() writes a character that it does not show as itself; empty where it does.
std::string escaped(char32_t code_point, char quote) {
  const auto number = static_cast<uint32_t>(code_point);
  if (code_point == static_cast<char32_t>(quote) || code_point == '\\') return {'\\', static_cast<char>(code_point)};
  if (code_point == '\n') return "\\n";
  if (code_point == '\r') return "\\r";
  if (code_point == '\t') return "\\t";
  if (unicode::is_printable(code_point)) return {};
  if (number < 0x100) return fmt::format("\\x{:02x}", number);
  if (number < 0x10000) return fmt::format("\\u{:04x}", number);
  return fmt::format("\\U{:08x}", number);
}

Text quoted(const Text& text) {
  const std::string_view view = text.view();
  const bool has_single = view.find('\'') != std::string_view::npos;
  const char quote = has_single && view.find('"') == std::string_view::npos ? '"' : '\'';
  Text out(std::string(1, quote));
  for (const Text::Run& run : text.runs()) {
    for (size_t at = run.begin; at < run.end;) {
      const auto [code_point, size] = unicode::decode(view, at);
      const std::string escape = escaped(code_point, quote);
      out.append(escape.empty() ? view.substr(at, size) : std::string_view(escape), run.origin);
      at += size;
    }
  }
  out.append(std::string(1, quote), Origin::kTemplate);
  return out;
}

class Printer {
 public:
  explicit Printer(Interpreter& interpreter) : interpreter_(interpreter) {}

  void print(const Value& value) {
    interpreter_.budget().spend();
    if (value.is_string()) {
      const Text text = quoted(value.text());
      interpreter_.budget().spend_bytes(text.size());
      if (value.is_markup()) add("Markup(");
      out_.append(text);
      if (value.is_markup()) add(")");
    } else if (value.is_sequence()) {
      print_items(value);
    } else if (value.is_dict()) {
      print_dict(value.as_dict());
    } else if (value.is_dict_view()) {
      print_view(value);
    } else if (value.is_none()) {
      add("None");
    } else if (value.is_bool()) {
      add(value.as_bool() ? "True" : "False");
    } else if (value.is_integer()) {
      add(integer_text(*value.as_integer()));
    } else if (value.is_float()) {
      add(number_text(value.as_float()));
    } else if (value.is_undefined()) {
      add("Undefined");
    } else if (value.is_range()) {
      const Range& range = value.as_range();
      add(fmt::format("range({}, {}{})", integer_text(range.start), integer_text(range.stop),
                      range.step == 1 ? "" : ", " + integer_text(range.step)));
    } else if (value.is_iterator()) {
      add("<generator object>");
    } else {
      const Budget::Level level(interpreter_.budget());
      out_.append(value.as_object().repr(interpreter_));
    }
  }

  Text take() { return std::move(out_); }

 private:
  void add(std::string_view text) { out_.append(text, Origin::kTemplate); }

  void print_items(const Value& value) {
    const std::vector<Value>& items = value.items();
    add(value.is_tuple() ? "(" : "[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(", ");
      print(items[i]);
    }
    add(!value.is_tuple() ? "]" : items.size() == 1 ? ",)" : ")");
  }

  void print_dict(const Dict& dict) {
    add("{");
    for (size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) add(", ");
      print(dict.entries()[i].first);
      add(": ");
      print(dict.entries()[i].second);
    }
    add("}");
  }

  void print_view(const Value& view) {
    const DictPart part = view.dict_part();
    add(type_name(view) + "([");
    bool is_first = true;
    for (const auto& [key, value] : view.viewed_dict().entries()) {
      if (!is_first) add(", ");
      is_first = false;
      if (part == DictPart::kItems) add("(");
      if (part != DictPart::kValues) print(key);
      if (part == DictPart::kItems) add(", ");
      if (part != DictPart::kKeys) print(value);
      if (part == DictPart::kItems) add(")");
    }
    add("])");
  }

  Interpreter& interpreter_;
  Text out_;
};

}  // namespace

Text to_text(const Value& value, Interpreter& interpreter) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return {};
  return repr(value, interpreter);
}

Text repr(const Value& value, Interpreter& interpreter) {
  Printer printer(interpreter);
  printer.print(value);
  return printer.take();
}

std::string integer_text(Integer value) {
  if (value == 0) return "0";
  const bool is_negative = value < 0;
  std::string digits;
  // Digit by digit with its sign: the smallest integer has no positive counterpart.
  for (; value != 0; value /= 10) {
    const int digit = static_cast<int>(value % 10);
    digits.insert(digits.begin(), static_cast<char>('0' + (digit < 0 ? -digit : digit)));
  }
  return (is_negative ? "-" : "") + digits;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that give the same double, with an exponent where Python has one.
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer.data(), static_cast<size_t>(end - buffer.data()));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t digits_of_exponent = e + 1 + (scientific[e + 1] == '+' ? 1 : 0);
  std::from_chars(scientific.data() + digits_of_exponent, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed_end = std::to_chars(buffer.begin(), buffer.end(), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer.data(), static_cast<size_t>(fixed_end - buffer.data()));
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string escape_html(std::string_view text) {
  return escape_html(Text(std::string(text))).bytes();
}

Text escape_html(const Text& text) {
  Text out;
  for (const Text::Run& run : text.runs()) {
    size_t copied = run.begin;
    for (size_t at = run.begin; at < run.end; ++at) {
      const char c = text.bytes()[at];
      const std::string_view entity = c == '&'    ? "&amp;"
                                      : c == '<'  ? "&lt;"
                                      : c == '>'  ? "&gt;"
                                      : c == '"'  ? "&#34;"
                                      : c == '\'' ? "&#39;"
                                                  : "";
      if (entity.empty()) continue;
      out.append(text, copied, at);
      out.append(entity, run.origin);
      copied = at + 1;
    }
    out.append(text, copied, run.end);
  }
  return out;
}

}  // namespace unspool::jinja
