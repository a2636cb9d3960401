// Filters that lay text out: indent, truncate, wordwrap and what makes HTML.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/characters.h"
#include "jinja/filter_support.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

const Text& require_text(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string()) fail(fmt::format("expected a string, got {}", type_name(value)));
  return value.text();
}

Value indent(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("indent", {"width", "first", "blank"}, 0, std::move(arguments));
  Text indentation("    ");
  if (bound.has(0)) {
    indentation = bound[0].is_string() ? bound[0].text() : Text(std::string(require_size(bound[0]) & 0xFFFF, ' '));
  }
  Text text = require_text(value);
  text.append("\n", Origin::kTemplate);  // so that an empty last line counts
  const std::vector<Text> lines = split_lines(text, false);
  interpreter.budget().spend(static_cast<int64_t>(lines.size()));
  interpreter.budget().spend_bytes(text.size() + lines.size() * indentation.size());
  const bool indents_blank = bound.flag(2);
  Text out = bound.flag(1) ? indentation : Text();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.append("\n", Origin::kTemplate);
      if (indents_blank || !lines[i].empty()) out.append(indentation);
    }
    out.append(lines[i]);
  }
  return Value::string(std::move(out), value.is_markup());
}

Value truncate(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("truncate", {"length", "killwords", "end", "leeway"}, 0, std::move(arguments));
  // Whole numbers are asked for only where something is cut.
  const auto number = [&](size_t i, double otherwise) {
    if (i == 0 ? !bound.has(i) : !bound.is_set(i)) return otherwise;
    const auto given = bound[i].as_number();
    return given ? *given : static_cast<double>(bound.integer(i, 0));
  };
  const double wanted = number(0, 255);
  const Text end = bound.has(2) ? bound.text(2) : Text("...");
  const auto end_size = static_cast<Integer>(unicode::count_characters(end.view()));
  const double leeway = number(3, 5);
  if (!(wanted >= static_cast<double>(end_size))) {
    fail(fmt::format("expected length >= {}, got {}", integer_text(end_size), wanted));
  }
  if (!(leeway >= 0)) fail(fmt::format("expected leeway >= 0, got {}", leeway));
  if (static_cast<double>(length(value, interpreter)) <= wanted + leeway) return value;
  const Text& text = require_text(value);
  Text out = text.slice(0, character_offset(text.view(), static_cast<size_t>(bound.integer(0, 255) - end_size)));
  if (!bound.flag(1)) out = split(out, " ", 1, true)[0];
  out.append(end);
  return Value::string(std::move(out), value.is_markup());
}

Value strip_tags(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("striptags", {}, 0, std::move(arguments));
  Text text = to_text(value, interpreter);
  interpreter.budget().spend_bytes(4 * text.size());
  const auto remove = [&](std::string_view from, std::string_view to) {
    Text out;
    size_t copied = 0;
    for (size_t at = text.view().find(from); at != std::string_view::npos; at = text.view().find(from, copied)) {
      const size_t end = text.view().find(to, at);
      if (end == std::string_view::npos) break;
      out.append(text, copied, at);
      copied = end + to.size();
    }
    out.append(text, copied, text.size());
    text = std::move(out);
  };
  remove("<!--", "-->");
  remove("<", ">");
  Text out;
  for (const Text& word : split(text, std::nullopt, -1, false)) {
    if (!out.empty()) out.append(" ", Origin::kTemplate);
    out.append(word);
  }
  if (out.view().find('&') != std::string_view::npos) fail_unsupported("striptags of HTML entities is not supported");
  return Value::string(std::move(out));
}

Value xml_attributes(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("xmlattr", {"autospace"}, 0, std::move(arguments));
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_dict()) fail(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  Text out;
  for (const auto& [key, item] : value.as_dict().entries()) {
    interpreter.budget().spend();
    if (item.is_none() || item.is_undefined()) continue;
    if (!key.is_string()) fail("expected string or bytes-like object");
    if (key.text().view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      fail(fmt::format("Invalid character in attribute name: {}", repr(key, interpreter).bytes()));
    }
    const auto escaped = [&](const Value& part) {
      return part.is_markup() ? part.text() : escape_html(to_text(part, interpreter));
    };
    if (!out.empty() || !bound.has(0) || bound.flag(0)) out.append(" ", Origin::kTemplate);
    out.append(escaped(key));
    out.append("=\"", Origin::kTemplate);
    out.append(escaped(item));
    out.append("\"", Origin::kTemplate);
    interpreter.budget().spend_bytes(key.text().size() + out.size() / 64);
  }
  return Value::string(std::move(out));
}

template <const char* kName>
Value unsupported(Interpreter&, const Value&, Arguments) {
  fail_unsupported(fmt::format("the filter '{}' is not supported", kName));
}
constexpr char kPprint[] = "pprint";
constexpr char kRandom[] = "random";
constexpr char kUrlize[] = "urlize";
constexpr char kWordwrap[] = "wordwrap";

constexpr NamedFilter kFilters[] = {
    {"indent", indent},
    {"truncate", truncate},
    {"striptags", strip_tags},
    {"xmlattr", xml_attributes},
    // Known by name, so that a template that has them in a branch still loads. No chat template does.
    {"pprint", unsupported<kPprint>},
    {"random", unsupported<kRandom>},
    {"urlize", unsupported<kUrlize>},
    {"wordwrap", unsupported<kWordwrap>},
};

}  // namespace

FilterBody find_layout_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace unspool::jinja
