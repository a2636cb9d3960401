// The methods of str that search, cut and join.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/filters.h"
#include "jinja/interpreter.h"
#include "jinja/iteration.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/string_format.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

// Pays for a look at the whole string, which every method takes.
const Text& text_of(Interpreter& interpreter, const Value& self) {
  interpreter.budget().spend_bytes(self.text().size());
  return self.text();
}

Value like(const Value& self, Text text) {
  return Value::string(std::move(text), self.is_markup());
}

// Parts of a string are paid for before they are made. Each is a few allocations, which take as long as several steps.
void spend_parts(Interpreter& interpreter, size_t count) {
  interpreter.budget().spend(static_cast<int64_t>(8 * count));
}

Value list_of(Interpreter& interpreter, const Value& self, std::vector<Text> parts) {
  interpreter.budget().spend(static_cast<int64_t>(parts.size()));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(like(self, std::move(part)));
  return Value::list(std::move(items));
}

template <bool kStart, bool kEnd>
Value strip_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("strip", {"chars"}, 0, std::move(arguments));
  std::optional<std::string_view> chars;
  if (bound.is_set(0)) {
    if (!bound[0].is_string()) fail("strip arg must be None or str");
    chars = bound.text(0).view();
  }
  return like(self, strip(text_of(interpreter, self), chars, kStart, kEnd));
}

template <bool kFromEnd>
Value split_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("split", {"sep", "maxsplit"}, 0, std::move(arguments));
  std::optional<std::string_view> separator;
  if (bound.is_set(0)) {
    if (!bound[0].is_string()) fail(fmt::format("must be str or None, not {}", type_name(bound[0])));
    separator = bound.text(0).view();
    if (separator->empty()) fail("empty separator");
  }
  const Text& text = text_of(interpreter, self);
  spend_parts(interpreter, separator ? count_of(text.view(), *separator) : text.size() / 16);
  return list_of(interpreter, self, split(text, separator, bound.integer(1, -1), kFromEnd));
}

Value split_lines_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("splitlines", {"keepends"}, 0, std::move(arguments));
  const Text& text = text_of(interpreter, self);
  spend_parts(interpreter, count_of(text.view(), "\n") + text.size() / 64);
  return list_of(interpreter, self, split_lines(text, bound.flag(0)));
}

Value replace_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("replace", {"old", "new", "count"}, 2, std::move(arguments));
  for (const size_t i : {0, 1}) {
    if (!bound[i].is_string())
      fail(fmt::format("replace() argument {} must be str, not {}", i + 1, type_name(bound[i])));
  }
  return replace_text(interpreter, self, bound[0], bound[1], bound.integer(2, -1));
}

// The characters from `start` to `stop` as bytes, by the rules of slices.
struct Part {
  size_t begin;
  size_t end;
  bool is_empty_range;  // start beyond stop or the text: nothing is found there, not even ''
};
Part part_of(std::string_view text, const Bound& bound, size_t first) {
  if (!bound.is_set(first) && !bound.is_set(first + 1)) return {0, text.size(), false};
  const auto size = static_cast<Integer>(unicode::count_characters(text));
  const auto position = [&](size_t i, Integer otherwise) {
    if (!bound.is_set(i)) return otherwise;
    const Integer at = require_integer(bound[i]);
    return at < 0 ? std::max<Integer>(at + size, 0) : at;
  };
  const Integer start = position(first, 0);
  const Integer stop = std::min(position(first + 1, size), size);
  if (start > stop) return {0, 0, true};
  const size_t begin = character_offset(text, static_cast<size_t>(start));
  return {begin, begin + character_offset(text.substr(begin), static_cast<size_t>(stop - start)), false};
}

enum class Search { kFind, kIndex };

template <Search kSearch, bool kFromEnd>
Value find_method_of(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("find", {"sub", "start", "end"}, 1, std::move(arguments));
  const std::string_view text = text_of(interpreter, self).view();
  const std::string_view wanted = bound.text(0).view();
  const Part part = part_of(text, bound, 1);
  size_t at = std::string_view::npos;
  if (!part.is_empty_range) {
    const std::string_view within = text.substr(part.begin, part.end - part.begin);
    at = kFromEnd ? within.rfind(wanted) : within.find(wanted);
  }
  if (at == std::string_view::npos) {
    if (kSearch == Search::kIndex) fail("substring not found");
    return Value::integer(-1);
  }
  return Value::integer(static_cast<Integer>(unicode::count_characters(text.substr(0, part.begin + at))));
}

Value count_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("count", {"sub", "start", "end"}, 1, std::move(arguments));
  const std::string_view text = text_of(interpreter, self).view();
  const std::string_view wanted = bound.text(0).view();
  const Part part = part_of(text, bound, 1);
  if (part.is_empty_range) return Value::integer(0);
  const std::string_view within = text.substr(part.begin, part.end - part.begin);
  if (wanted.empty()) return Value::integer(static_cast<Integer>(unicode::count_characters(within)) + 1);
  return Value::integer(static_cast<Integer>(count_of(within, wanted)));
}

template <bool kEnd>
Value affix_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  constexpr std::string_view kName = kEnd ? "endswith" : "startswith";
  const Bound bound(kName, {"prefix", "start", "end"}, 1, std::move(arguments));
  const std::string_view text = text_of(interpreter, self).view();
  const Part part = part_of(text, bound, 1);
  const std::string_view within = text.substr(part.begin, part.end - part.begin);
  const auto fits = [&](const Value& affix) {
    if (affix.is_undefined()) fail_undefined(affix);
    if (!affix.is_string()) {
      const bool in_tuple = bound[0].is_tuple();
      fail(in_tuple ? fmt::format("tuple for {} must only contain str, not {}", kName, type_name(affix))
                    : fmt::format("{} first arg must be str or a tuple of str, not {}", kName, type_name(affix)));
    }
    if (part.is_empty_range) return false;
    return kEnd ? within.ends_with(affix.text().view()) : within.starts_with(affix.text().view());
  };
  if (!bound[0].is_tuple()) return Value::boolean(fits(bound[0]));
  interpreter.budget().spend(static_cast<int64_t>(bound[0].items().size()));
  const auto& affixes = bound[0].items();
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), fits));
}

template <bool kSuffix>
Value remove_affix(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound(kSuffix ? "removesuffix" : "removeprefix", {"affix"}, 1, std::move(arguments));
  const Text& text = text_of(interpreter, self);
  const std::string_view affix = bound.text(0).view();
  if (kSuffix && text.view().ends_with(affix)) return like(self, text.slice(0, text.size() - affix.size()));
  if (!kSuffix && text.view().starts_with(affix)) return like(self, text.slice(affix.size(), text.size()));
  return self;
}

Value join_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("join", {"iterable"}, 1, std::move(arguments));
  if (!is_iterable(bound[0])) fail("can only join an iterable");
  Text out;
  Iteration iteration(bound[0], interpreter);
  for (size_t i = 0; const std::optional<Value> item = iteration.next(); ++i) {
    if (!item->is_string()) {
      fail(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(*item)));
    }
    if (i > 0) out.append(self.text());
    out.append(self.is_markup() && !item->is_markup() ? escape_html(item->text()) : item->text());
    interpreter.budget().spend_bytes(self.text().size() + item->text().size());
  }
  return like(self, std::move(out));
}

template <bool kFromEnd>
Value partition_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("partition", {"sep"}, 1, std::move(arguments));
  const Text& text = text_of(interpreter, self);
  const Text& separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  const size_t at = kFromEnd ? text.view().rfind(separator.view()) : text.view().find(separator.view());
  if (at == std::string_view::npos) {
    const Value empty = like(self, {});
    return Value::tuple(kFromEnd ? std::vector<Value>{empty, empty, self} : std::vector<Value>{self, empty, empty});
  }
  return Value::tuple({like(self, text.slice(0, at)), like(self, separator),
                       like(self, text.slice(at + separator.size(), text.size()))});
}

enum class Justify { kLeft, kRight, kCenter };

template <Justify kJustify>
Value justify_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("center", {"width", "fillchar"}, 1, std::move(arguments));
  const Text fill = bound.has(1) ? bound.text(1) : Text(" ");
  if (unicode::count_characters(fill.view()) != 1) fail("The fill character must be exactly one character long");
  const Text& text = text_of(interpreter, self);
  const size_t width = require_size(bound[0]);
  const size_t size = unicode::count_characters(text.view());
  if (width <= size) return self;
  interpreter.budget().spend(static_cast<int64_t>((width - size) / 8));
  if (kJustify == Justify::kLeft) return like(self, pad(text, 0, width - size, fill));
  if (kJustify == Justify::kRight) return like(self, pad(text, width - size, 0, fill));
  return like(self, center(text, width, fill));
}

Value zfill_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("zfill", {"width"}, 1, std::move(arguments));
  const Text& text = text_of(interpreter, self);
  const size_t width = require_size(bound[0]);
  const size_t size = unicode::count_characters(text.view());
  if (width <= size) return self;
  interpreter.budget().spend(static_cast<int64_t>((width - size) / 8));
  const bool has_sign = text.view().starts_with('+') || text.view().starts_with('-');
  Text out = text.slice(0, has_sign ? 1 : 0);
  out.append(pad(text.slice(has_sign ? 1 : 0, text.size()), width - size, 0, Text("0")));
  return like(self, std::move(out));
}

Value expandtabs_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("expandtabs", {"tabsize"}, 0, std::move(arguments));
  const Text& text = text_of(interpreter, self);
  const size_t tab_size = bound.has(0) ? require_size(bound[0]) : 8;
  Text out;
  size_t column = 0;
  for (size_t at = 0; at < text.size();) {
    const auto [code_point, size] = unicode::decode(text.view(), at);
    if (code_point == '\t') {
      const size_t spaces = tab_size == 0 ? 0 : tab_size - column % tab_size;
      interpreter.budget().spend(static_cast<int64_t>(spaces / 8));
      out.append(std::string(spaces, ' '), text.origin_at(at));
      column += spaces;
    } else {
      out.append(text, at, at + size);
      column = code_point == '\n' || code_point == '\r' ? 0 : column + 1;
    }
    at += size;
  }
  return like(self, std::move(out));
}

Value format_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  return like(self, format_text(text_of(interpreter, self), arguments, interpreter));
}

Value format_map_method(Interpreter& interpreter, const Value& self, Arguments arguments) {
  if (!arguments.keywords.empty()) fail("format_map() takes no keyword arguments");
  if (arguments.positional.size() != 1) {
    fail(fmt::format("format_map() takes exactly one argument ({} given)", arguments.positional.size()));
  }
  const Value& mapping = arguments.positional[0];
  if (!mapping.is_dict()) fail_unsupported("format_map() is supported for a dict alone");
  Arguments keywords;
  for (const auto& [name, value] : mapping.as_dict().entries()) {
    if (name.is_string()) keywords.keywords.emplace_back(name.text().bytes(), value);
  }
  return like(self, format_text(text_of(interpreter, self), keywords, interpreter));
}

constexpr NamedMethod kMethods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", split_lines_method},
    {"replace", replace_method},
    {"find", find_method_of<Search::kFind, false>},
    {"rfind", find_method_of<Search::kFind, true>},
    {"index", find_method_of<Search::kIndex, false>},
    {"rindex", find_method_of<Search::kIndex, true>},
    {"count", count_method},
    {"startswith", affix_method<false>},
    {"endswith", affix_method<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"join", join_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"ljust", justify_method<Justify::kLeft>},
    {"rjust", justify_method<Justify::kRight>},
    {"center", justify_method<Justify::kCenter>},
    {"zfill", zfill_method},
    {"expandtabs", expandtabs_method},
    {"format", format_method},
    {"format_map", format_map_method},
};

}  // namespace

Function::Body find_string_method(std::string_view name) {
  for (const NamedMethod& method : kMethods) {
    if (method.name == name) return method.body;
  }
  return find_string_case_method(name);
}

Value replace_text(Interpreter& interpreter, const Value& self, const Value& old, const Value& with, Integer count) {
  const Text& text = text_of(interpreter, self);
  // What it grows to is paid for before it is made.
  size_t matches = old.text().empty() ? text.size() + 1 : count_of(text.view(), old.text().view());
  if (count >= 0) matches = static_cast<size_t>(std::min<Integer>(count, static_cast<Integer>(matches)));
  interpreter.budget().spend(static_cast<int64_t>(matches));
  interpreter.budget().spend_bytes(text.size() + matches * with.text().size());
  return like(self, replace(text, old.text().view(), with.text(), count));
}

Text center(const Text& text, size_t width, const Text& fill) {
  const size_t size = unicode::count_characters(text.view());
  if (width <= size) return text;
  const size_t space = width - size;
  // Python puts the odd one on the left where the width is odd.
  const size_t before = space / 2 + (space & width & 1);
  return pad(text, before, space - before, fill);
}

}  // namespace unspool::jinja
