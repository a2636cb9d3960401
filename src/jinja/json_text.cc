#include "jinja/json_text.h"

#include <fmt/format.h>

#include <cmath>

#include "jinja/filter_support.h"
#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

class JsonPrinter {
 public:
  JsonPrinter(const JsonFormat& format, Interpreter& interpreter) : format_(format), interpreter_(interpreter) {}

  void print(const Value& value) {
    interpreter_.budget().spend();
    if (value.is_string()) {
      print_string(value.text());
    } else if (value.is_none()) {
      add("null");
    } else if (value.is_bool()) {
      add(value.as_bool() ? "true" : "false");
    } else if (value.is_integer()) {
      add(integer_text(*value.as_integer()));
    } else if (value.is_float()) {
      add(json_number(value.as_float()));
    } else if (value.is_sequence()) {
      print_items(value.items());
    } else if (value.is_dict()) {
      print_dict(value.as_dict());
    } else {
      fail(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  Text take() { return std::move(out_); }

 private:
  void add(std::string_view text) {
    out_.append(text, Origin::kTemplate);
    interpreter_.budget().spend_bytes(text.size());
  }

  void print_string(const Text& text) {
    interpreter_.budget().spend_bytes(4 * text.size());  // every character is looked at
    add("\"");
    for (const Text::Run& run : text.runs()) {
      size_t copied = run.begin;
      for (size_t at = run.begin; at < run.end;) {
        const auto [code_point, size] = unicode::decode(text.view(), at);
        const std::string escape = json_escape(code_point, format_.ensure_ascii);
        if (!escape.empty()) {
          out_.append(text, copied, at);
          out_.append(escape, run.origin);
          copied = at + size;
        }
        at += size;
      }
      out_.append(text, copied, run.end);
    }
    add("\"");
  }

  void break_line() {
    if (!format_.indent) return;
    add("\n");
    for (int i = 0; i < level_; ++i) add(*format_.indent);
  }

  void print_items(const std::vector<Value>& items) {
    if (items.empty()) return add("[]");
    add("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(format_.item_separator);
      break_line();
      print(items[i]);
    }
    --level_;
    break_line();
    add("]");
  }

  // Keys that are no strings become ones.
  Value key_of(const Value& key) {
    if (key.is_string()) return key;
    if (key.is_none()) return Value::string("null");
    if (key.is_bool()) return Value::string(key.as_bool() ? "true" : "false");
    if (key.is_integer()) return Value::string(integer_text(*key.as_integer()));
    if (key.is_float()) return Value::string(json_number(key.as_float()));
    fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  void print_dict(const Dict& dict) {
    if (dict.size() == 0) return add("{}");
    std::vector<Dict::Entry> entries = dict.entries();
    interpreter_.budget().spend(static_cast<int64_t>(entries.size()));
    if (format_.sort_keys) {
      std::vector<Value> keys;
      for (const auto& [key, value] : entries) keys.push_back(key);
      keys = sorted(interpreter_, std::move(keys), [](const Value& key) { return key; }, false);
      entries.clear();
      for (const Value& key : keys) entries.emplace_back(key, *dict.find(key));
    }
    add("{");
    ++level_;
    bool is_first = true;
    for (const auto& [key, value] : entries) {
      if (!is_first) add(format_.item_separator);
      is_first = false;
      break_line();
      print(key_of(key));
      add(format_.key_separator);
      print(value);
    }
    --level_;
    break_line();
    add("}");
  }

  const JsonFormat& format_;
  Interpreter& interpreter_;
  Text out_;
  int level_ = 0;
};

}  // namespace

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return number_text(value);
}

std::string json_escape(char32_t code_point, bool ensure_ascii) {
  switch (code_point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  const auto number = static_cast<uint32_t>(code_point);
  if (number < 0x20 || (ensure_ascii && number > 0x7F && number < 0x10000)) {
    return fmt::format("\\u{:04x}", number);
  }
  if (!ensure_ascii || number < 0x10000) return {};
  const uint32_t offset = number - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF));
}

Text json_text(const Value& value, const JsonFormat& format, Interpreter& interpreter) {
  JsonPrinter printer(format, interpreter);
  printer.print(value);
  return printer.take();
}

}  // namespace unspool::jinja
