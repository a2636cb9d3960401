// Filters of strings that are little more than a method.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/filter_support.h"
#include "jinja/iteration.h"
#include "jinja/json_text.h"
#include "jinja/string_format.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/categories.h"
#include "unicode/python_str.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

const Text& paid(Interpreter& interpreter, const Value& value) {
  interpreter.budget().spend_bytes(12 * value.text().size());  // most look at every character
  return value.text();
}

template <Text (*kMap)(const Text&)>
Value map_filter(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("filter", {}, 0, std::move(arguments));
  const Value text = soft_string(interpreter, value);
  return Value::string(kMap(paid(interpreter, text)), text.is_markup());
}

Text title(const Text& text) {
  // Words begin after space, hyphens and opening brackets, unlike Python's. Behind its first character each is lowered
  // by itself, as the sigma at its end shows.
  const std::string_view view = text.view();
  const auto separates = [](char32_t c) {
    return unicode::is_space(c) || (c >= 0x1C && c <= 0x1F) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  };
  Text out;
  for (size_t at = 0; at < view.size();) {
    const auto first = unicode::decode(view, at);
    size_t end = at + first.size_bytes;
    if (separates(first.code_point)) {
      out.append(text, at, end);
    } else {
      const size_t rest = end;
      while (end < view.size()) {
        const auto next = unicode::decode(view, end);
        if (separates(next.code_point)) break;
        end += next.size_bytes;
      }
      out.append(upper(text.slice(at, rest)));
      out.append(lower(text.slice(rest, end)));
    }
    at = end;
  }
  return out;
}

Value string(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("string", {}, 0, std::move(arguments));
  return soft_string(interpreter, value);
}

Value trim(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("trim", {"chars"}, 0, std::move(arguments));
  const Value text = soft_string(interpreter, value);
  std::optional<std::string_view> chars;
  if (bound.is_set(0)) {
    if (!bound[0].is_string()) fail("strip arg must be None or str");
    chars = bound.text(0).view();
  }
  return Value::string(strip(paid(interpreter, text), chars, true, true), text.is_markup());
}

Value replace_filter(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("replace", {"old", "new", "count"}, 2, std::move(arguments));
  const auto plain = [&](const Value& part) { return Value::string(to_text(part, interpreter)); };
  return replace_text(interpreter, plain(value), plain(bound[0]), plain(bound[1]),
                      bound.is_set(2) ? bound.integer(2, -1) : -1);
}

Value safe(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("safe", {}, 0, std::move(arguments));
  return Value::string(to_text(value, interpreter), true);
}

Value escape(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("escape", {}, 0, std::move(arguments));
  if (value.is_markup()) return value;
  const Text text = to_text(value, interpreter);
  interpreter.budget().spend_bytes(6 * text.size());
  return Value::string(escape_html(text), true);
}

Value force_escape(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("forceescape", {}, 0, std::move(arguments));
  const Text text = to_text(value, interpreter);
  interpreter.budget().spend_bytes(6 * text.size());
  return Value::string(escape_html(text), true);
}

Value format(Interpreter& interpreter, const Value& value, Arguments arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  const Value text = soft_string(interpreter, value);
  if (arguments.keywords.empty()) {
    return percent_format(text, Value::tuple(std::move(arguments.positional)), interpreter);
  }
  Dict values;
  for (auto& [name, item] : arguments.keywords) values.set(Value::string(name), std::move(item));
  return percent_format(text, Value::dict(std::move(values)), interpreter);
}

Value join(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("join", {"d", "attribute"}, 0, std::move(arguments));
  const Text separator = bound.has(0) ? to_text(bound[0], interpreter) : Text();
  const std::vector<Value> parts = attribute_parts(bound.get(1, Value::none()));
  Text out;
  bool is_first = true;
  Iteration iteration(value, interpreter);
  while (const std::optional<Value> item = iteration.next()) {
    if (!is_first) out.append(separator);
    is_first = false;
    const size_t size = out.size();
    out.append(to_text(attribute_of(interpreter, *item, parts), interpreter));
    interpreter.budget().spend_bytes(out.size() - size + separator.size());
  }
  return Value::string(std::move(out));
}

Value center_filter(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("center", {"width"}, 0, std::move(arguments));
  const Value text = soft_string(interpreter, value);
  const size_t width = require_size(bound.get(0, Value::integer(80)));
  interpreter.budget().spend(static_cast<int64_t>(width / 8));
  return Value::string(center(paid(interpreter, text), width, Text(" ")), text.is_markup());
}

Value word_count(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("wordcount", {}, 0, std::move(arguments));
  const Value text = soft_string(interpreter, value);
  const std::string_view view = paid(interpreter, text).view();
  Integer count = 0;
  bool in_word = false;
  for (size_t at = 0; at < view.size();) {
    const auto [code_point, size] = unicode::decode(view, at);
    const bool is_word =
        unicode::is_alpha(code_point) || unicode::is_numeric_in_python(code_point) || code_point == '_';
    if (is_word && !in_word) ++count;
    in_word = is_word;
    at += size;
  }
  return Value::integer(count);
}

Value url_encode(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("urlencode", {}, 0, std::move(arguments));
  const auto quote = [&](const Value& part, bool for_query) {
    const Text text = to_text(part, interpreter);
    interpreter.budget().spend_bytes(3 * text.size());
    Text out;
    for (size_t at = 0; at < text.size(); ++at) {
      const auto c = static_cast<unsigned char>(text.bytes()[at]);
      const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                            c == '.' || c == '-' || c == '~' || (c == '/' && !for_query);
      out.append(is_plain                ? std::string(1, static_cast<char>(c))
                 : c == ' ' && for_query ? std::string("+")
                                         : fmt::format("%{:02X}", c),
                 text.origin_at(at));
    }
    return out;
  };
  if (value.is_string() || !is_iterable(value)) return Value::string(quote(value, false));
  const Value pairs = value.is_dict() ? Value::dict_view(value.shared_dict(), DictPart::kItems) : value;
  Text out;
  Iteration iteration(pairs, interpreter);
  while (const std::optional<Value> pair = iteration.next()) {
    const std::vector<Value> items = to_vector(*pair, interpreter);
    if (items.size() != 2) fail(fmt::format("not enough values to unpack (expected 2, got {})", items.size()));
    if (!out.empty()) out.append("&", Origin::kTemplate);
    out.append(quote(items[0], true));
    out.append("=", Origin::kTemplate);
    out.append(quote(items[1], true));
  }
  return Value::string(std::move(out));
}

Value to_json(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, std::move(arguments));
  JsonFormat format;
  format.ensure_ascii = bound.flag(0);
  // Python's encoder has strings written before it looks at the indentation.
  if (bound.is_set(1) && !value.is_string()) {
    if (bound[1].is_string()) {
      format.indent = bound[1].text().bytes();
    } else {
      const size_t width = require_size(bound[1]);
      interpreter.budget().spend(static_cast<int64_t>(width));
      format.indent = std::string(width, ' ');
    }
    format.item_separator = std::string(",");
  }
  if (bound.is_set(2)) {
    const std::vector<Value> separators = to_vector(bound[2], interpreter);
    if (separators.size() != 2) {
      fail(separators.size() > 2 ? std::string("too many values to unpack (expected 2)")
                                 : fmt::format("not enough values to unpack (expected 2, got {})", separators.size()));
    }
    if (!separators[0].is_string() || !separators[1].is_string()) fail("separators must be strings");
    format.item_separator = separators[0].text().bytes();
    format.key_separator = separators[1].text().bytes();
  }
  format.sort_keys = bound.flag(3);
  return Value::string(json_text(value, format, interpreter));
}

constexpr NamedFilter kFilters[] = {
    {"upper", map_filter<upper>},
    {"lower", map_filter<lower>},
    {"capitalize", map_filter<capitalize>},
    {"title", map_filter<title>},
    {"string", string},
    {"trim", trim},
    {"replace", replace_filter},
    {"safe", safe},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"join", join},
    {"center", center_filter},
    {"wordcount", word_count},
    {"urlencode", url_encode},
    {"tojson", to_json},
};

}  // namespace

FilterBody find_text_filter(std::string_view name) {
  return find_in(kFilters, name);
}

FilterBody find_filter(std::string_view name) {
  for (const auto find :
       {find_text_filter, find_sequence_filter, find_select_filter, find_number_filter, find_layout_filter}) {
    if (const FilterBody body = find(name)) return body;
  }
  return nullptr;
}

}  // namespace unspool::jinja
