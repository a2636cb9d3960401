#include "jinja/string_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/characters.h"
#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/python_str.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

// repr() with everything beyond ASCII escaped, for %a and {!a}.
Text ascii_repr(const Value& value, Interpreter& interpreter) {
  const Text text = repr(value, interpreter);
  Text out;
  for (const Text::Run& run : text.runs()) {
    for (size_t at = run.begin; at < run.end;) {
      const auto [code_point, size] = unicode::decode(text.view(), at);
      const auto number = static_cast<uint32_t>(code_point);
      out.append(number < 0x80      ? text.view().substr(at, size)
                 : number < 0x100   ? fmt::format("\\x{:02x}", number)
                 : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                                    : fmt::format("\\U{:08x}", number),
                 run.origin);
      at += size;
    }
  }
  return out;
}

class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& values, Interpreter& interpreter)
      : format_(format), view_(format_.view()), values_(values), interpreter_(interpreter) {}

  Text run() {
    Text out;
    size_t copied = 0;
    while ((at_ = view_.find('%', copied)) != std::string_view::npos) {
      out.append(format_, copied, at_);
      ++at_;
      out.append(directive());
      interpreter_.budget().spend_bytes(out.size());
      interpreter_.budget().check_output(out.size());
      copied = at_;
    }
    out.append(format_, copied, format_.size());
    const size_t given = values_.is_tuple() ? values_.items().size() : 1;
    const bool may_remain = values_.is_dict() || (!values_.is_tuple() && used_mapping_);
    // A single value that is no mapping has to be used.
    if (used_ < given && !may_remain && !(is_mapping() && !values_.is_tuple())) {
      fail("not all arguments converted during string formatting");
    }
    return out;
  }

 private:
  // What has items by key, to Python: it may go unused.
  bool is_mapping() const {
    return values_.is_dict() || values_.is_list() || values_.is_range() || values_.is_undefined();
  }

  char peek() const {
    if (at_ >= view_.size()) fail("incomplete format");
    return view_[at_];
  }

  Value next_value() {
    interpreter_.budget().spend();
    if (values_.is_tuple()) {
      if (used_ >= values_.items().size()) fail("not enough arguments for format string");
      return values_.items()[used_++];
    }
    if (used_++ > 0) fail("not enough arguments for format string");
    return values_;
  }

  Value named_value() {
    if (!values_.is_dict()) fail("format requires a mapping");
    int depth = 1;
    const size_t begin = ++at_;
    for (; depth > 0; ++at_) {
      if (at_ >= view_.size()) fail("incomplete format key");
      if (view_[at_] == '(') ++depth;
      if (view_[at_] == ')') --depth;
    }
    used_mapping_ = true;
    const Value key = Value::string(view_.substr(begin, at_ - 1 - begin));
    const Value* const value = values_.as_dict().find(key);
    if (value == nullptr) fail(repr(key, interpreter_).bytes());
    return *value;
  }

  int number_or_star() {
    if (peek() == '*') {
      ++at_;
      const auto integer = next_value().as_integer();
      if (!integer) fail("* wants int");
      return static_cast<int>(std::clamp<Integer>(*integer, -100'000, 100'000));
    }
    int value = 0;
    while (at_ < view_.size() && view_[at_] >= '0' && view_[at_] <= '9') {
      value = std::min(value * 10 + (view_[at_++] - '0'), 100'000);
    }
    return value;
  }

  Text directive() {
    std::optional<Value> named;
    if (peek() == '(') named = named_value();
    const size_t flags_begin = at_;
    while (std::string_view("-+ #0").find(peek()) != std::string_view::npos) ++at_;
    const std::string_view flags = view_.substr(flags_begin, at_ - flags_begin);
    const auto has = [&](char flag) { return flags.find(flag) != std::string_view::npos; };
    int width = number_or_star();
    const bool is_left = has('-') || width < 0;
    width = std::abs(width);
    int precision = -1;
    if (peek() == '.') {
      ++at_;
      precision = std::max(number_or_star(), 0);
    }
    while (std::string_view("hlL").find(peek()) != std::string_view::npos) ++at_;
    const size_t type_at = at_;
    const auto [type, type_size] = unicode::decode(view_, at_);
    at_ += type_size;
    if (type == '%') return Text("%", format_.origin_at(type_at));
    const Value value = named ? *named : next_value();
    if (type == 's' || type == 'r' || type == 'a') {
      Text text = type == 's'   ? to_text(value, interpreter_)
                  : type == 'r' ? repr(value, interpreter_)
                                : ascii_repr(value, interpreter_);
      if (precision >= 0) text = text.slice(0, character_offset(text.view(), static_cast<size_t>(precision)));
      return padded({}, text, width, is_left, false);
    }
    return number(value, type, type_at, width, precision, is_left,
                  has('+')   ? "+"
                  : has(' ') ? " "
                             : "",
                  has('#'), has('0'));
  }

  Text number(const Value& value, char32_t type, size_t type_at, int width, int precision, bool is_left,
              std::string_view plus, bool is_alternate, bool is_zero) {
    const char c = type < 0x80 ? static_cast<char>(type) : '\0';
    std::string digits;
    if (std::string_view("diuxXo").find(c) != std::string_view::npos && c != '\0') {
      const bool takes_float = c == 'd' || c == 'i' || c == 'u';
      std::optional<Integer> integer = value.as_integer();
      if (!integer && takes_float && value.is_float()) {
        if (!std::isfinite(value.as_float())) fail("cannot convert float infinity or NaN to integer");
        integer = static_cast<Integer>(value.as_float());
      }
      if (!integer) {
        fail(takes_float ? fmt::format("%{} format: a real number is required, not {}", c, type_name(value))
                         : fmt::format("%{} format: an integer is required, not {}", c, type_name(value)));
      }
      digits = format_integer(*integer, takes_float ? 'd' : c, is_alternate);
      if (precision > 0) {
        const size_t begin = digits.starts_with('-') ? 1 : 0;
        const auto wanted = static_cast<size_t>(precision);
        if (digits.size() - begin < wanted) digits.insert(begin, wanted - (digits.size() - begin), '0');
      }
    } else if (std::string_view("eEfFgG").find(c) != std::string_view::npos && c != '\0') {
      const auto real = value.as_number();
      if (!real) fail(fmt::format("must be real number, not {}", type_name(value)));
      digits = format_float(*real, c, precision, is_alternate);
    } else if (c == 'c') {
      return padded({}, character(value), width, is_left, false);
    } else {
      fail(fmt::format("unsupported format character '{}' (0x{:x}) at index {}",
                       view_.substr(type_at, unicode::decode(view_, type_at).size_bytes), static_cast<uint32_t>(type),
                       unicode::count_characters(view_.substr(0, type_at))));
    }
    std::string sign(digits.starts_with('-') ? "-" : plus);
    if (digits.starts_with('-')) digits.erase(0, 1);
    if (is_alternate && (c == 'x' || c == 'X' || c == 'o')) {
      sign += digits.substr(0, 2);
      digits.erase(0, 2);
    }
    return padded(Text(sign), Text(digits), width, is_left, is_zero && !is_left);
  }

  static Text character(const Value& value) {
    if (value.is_string() && unicode::count_characters(value.text().view()) == 1) return value.text();
    const auto code_point = value.as_integer();
    if (!code_point) fail("%c requires int or char");
    if (*code_point < 0 || *code_point > 0x10FFFF) fail("%c arg not in range(0x110000)");
    std::string text;
    unicode::append(text, static_cast<char32_t>(*code_point));
    return Text(text);
  }

  Text padded(const Text& sign, const Text& body, int width, bool is_left, bool with_zeros) {
    const size_t size = unicode::count_characters(sign.view()) + unicode::count_characters(body.view());
    const size_t space = static_cast<size_t>(width) > size ? static_cast<size_t>(width) - size : 0;
    interpreter_.budget().spend(static_cast<int64_t>(space / 8));
    Text out;
    if (!is_left && !with_zeros) out = pad({}, space, 0, Text(" "));
    out.append(sign);
    if (with_zeros) out.append(pad({}, space, 0, Text("0")));
    out.append(body);
    if (is_left) out = pad(out, 0, space, Text(" "));
    return out;
  }

  const Text& format_;
  std::string_view view_;
  const Value& values_;
  Interpreter& interpreter_;
  size_t at_ = 0;
  size_t used_ = 0;
  bool used_mapping_ = false;
};

class BraceFormatter {
 public:
  BraceFormatter(const Arguments& arguments, Interpreter& interpreter)
      : arguments_(arguments), interpreter_(interpreter) {}

  Text run(const Text& format, int depth) {
    if (depth < 0) fail("Max string recursion exceeded");
    const std::string_view view = format.view();
    Text out;
    for (size_t at = 0; at < view.size();) {
      const size_t brace = view.find_first_of("{}", at);
      const size_t end = std::min(brace, view.size());
      out.append(format, at, end);
      if (end == view.size()) break;
      const bool is_double = end + 1 < view.size() && view[end + 1] == view[end];
      if (is_double) {
        out.append(format, end, end + 1);
        at = end + 2;
      } else if (view[end] == '}') {
        fail("Single '}' encountered in format string");
      } else {
        at = field_end(view, end + 1);
        out.append(field(format.slice(end + 1, at - 1), depth));
        interpreter_.budget().spend_bytes(out.size());
        interpreter_.budget().check_output(out.size());
      }
    }
    return out;
  }

 private:
  static size_t field_end(std::string_view view, size_t at) {
    int depth = 1;
    for (; at < view.size(); ++at) {
      if (view[at] == '{') ++depth;
      if (view[at] == '}' && --depth == 0) return at + 1;
    }
    fail(at == view.size() && view.ends_with('{') ? "Single '{' encountered in format string"
                                                  : "expected '}' before end of string");
  }

  Text field(const Text& field, int depth) {
    interpreter_.budget().spend();
    const std::string_view view = field.view();
    const size_t name_end = std::min(view.find_first_of("!:"), view.size());
    size_t spec_begin = name_end;
    char conversion = '\0';
    if (name_end < view.size() && view[name_end] == '!') {
      if (name_end + 1 >= view.size()) fail("unmatched '{' in format spec");
      conversion = view[name_end + 1];
      spec_begin = name_end + 2;
      if (spec_begin < view.size() && view[spec_begin] != ':') fail("expected ':' after conversion specifier");
    }
    Value value = lookup(view.substr(0, name_end));
    if (conversion == 's') {
      value = Value::string(to_text(value, interpreter_));
    } else if (conversion == 'r') {
      value = Value::string(repr(value, interpreter_));
    } else if (conversion == 'a') {
      value = Value::string(ascii_repr(value, interpreter_));
    } else if (conversion != '\0') {
      fail(fmt::format("Unknown conversion specifier {}", conversion));
    }
    if (spec_begin >= view.size()) return to_text(value, interpreter_);
    const Text spec = run(field.slice(spec_begin + 1, field.size()), depth - 1);
    return format_value(value, spec.view(), interpreter_);
  }

  Value lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    std::string_view rest = name.substr(first_end);
    while (!rest.empty()) {
      if (rest[0] == '.') {
        rest.remove_prefix(1);
        const size_t end = std::min(rest.find_first_of(".["), rest.size());
        if (end == 0) fail("Empty attribute in format string");
        value = get_attribute(value, rest.substr(0, end), interpreter_);
        rest.remove_prefix(end);
      } else if (rest[0] == '[') {
        const size_t end = rest.find(']');
        if (end == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view key = rest.substr(1, end - 1);
        if (key.empty()) fail("Empty attribute in format string");
        const auto index = parse_integer(key, 10);
        value = get_item(value, index ? Value::integer(*index) : Value::string(key), interpreter_);
        rest.remove_prefix(end + 1);
      } else {
        fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::optional<Integer> index = parse_integer(name, 10);
    if (name.empty() || index) {
      if (name.empty() == is_manual_.value_or(false)) {
        if (is_manual_) {
          fail(name.empty() ? "cannot switch from manual field specification to automatic field numbering"
                            : "cannot switch from automatic field numbering to manual field specification");
        }
      }
      is_manual_ = !name.empty();
      if (name.empty()) index = next_++;
      if (*index >= static_cast<Integer>(arguments_.positional.size())) {
        fail("Replacement index " + integer_text(*index) + " out of range for positional args tuple");
      }
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [keyword, value] : arguments_.keywords) {
      if (keyword == name) return value;
    }
    fail(fmt::format("'{}'", name));
  }

  const Arguments& arguments_;
  Interpreter& interpreter_;
  Integer next_ = 0;
  std::optional<bool> is_manual_;
};

}  // namespace

Value percent_format(const Value& format, const Value& values, Interpreter& interpreter) {
  return Value::string(PercentFormatter(format.text(), values, interpreter).run(), format.is_markup());
}

Text format_text(const Text& format, const Arguments& arguments, Interpreter& interpreter) {
  return BraceFormatter(arguments, interpreter).run(format, 2);
}

}  // namespace unspool::jinja
