// Filters of lists and mappings.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "jinja/filter_support.h"
#include "jinja/iteration.h"
#include "jinja/string_search.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

Value length_filter(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("len", {}, 0, std::move(arguments));
  return Value::integer(length(value, interpreter));
}

Value first(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("first", {}, 0, std::move(arguments));
  std::optional<Value> item = Iteration(value, interpreter).next();
  return item ? *std::move(item) : Value::undefined("No first item, sequence was empty.");
}

// reversed() knows what has a length and items; nullopt for everything else.
std::optional<std::vector<Value>> reversed(Interpreter& interpreter, const Value& value) {
  if (value.is_iterator() || !is_iterable(value) || value.is_object()) return std::nullopt;
  std::vector<Value> items = to_vector(value, interpreter);
  std::reverse(items.begin(), items.end());
  return items;
}

Value iterate_over(Value list) {
  size_t at = 0;
  return Value::iterator(list, [list, at]() mutable -> std::optional<Value> {
    return at < list.items().size() ? std::optional<Value>(list.items()[at++]) : std::nullopt;
  });
}

// A generator whose items are made when the first is taken: what is wrong shows then.
Value iterate_late(const Value& source, std::function<std::vector<Value>()> make) {
  std::optional<Value> list;
  size_t at = 0;
  return Value::iterator(source, [make = std::move(make), list, at]() mutable -> std::optional<Value> {
    if (!list) list = Value::list(make());
    return at < list->items().size() ? std::optional<Value>(list->items()[at++]) : std::nullopt;
  });
}

Value last(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("last", {}, 0, std::move(arguments));
  if (value.is_sequence()) {
    return value.items().empty() ? Value::undefined("No last item, sequence was empty.") : value.items().back();
  }
  if (value.is_string() && !value.text().empty()) {
    const Text& text = value.text();
    const size_t size = unicode::decode_before(text.view(), text.size()).size_bytes;
    return Value::string(text.slice(text.size() - size, text.size()), value.is_markup());
  }
  const auto items = reversed(interpreter, value);
  if (!items) fail(fmt::format("'{}' object is not reversible", type_name(value)));
  return items->empty() ? Value::undefined("No last item, sequence was empty.") : items->front();
}

Value reverse(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("reverse", {}, 0, std::move(arguments));
  if (value.is_string()) {
    return get_slice(value, Value::none(), Value::none(), Value::integer(-1), interpreter);
  }
  if (auto items = reversed(interpreter, value)) return iterate_over(Value::list(*std::move(items)));
  if (!is_iterable(value)) fail("argument must be iterable");
  std::vector<Value> items = to_vector(value, interpreter);
  std::reverse(items.begin(), items.end());
  return Value::list(std::move(items));
}

Value list(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("list", {}, 0, std::move(arguments));
  return Value::list(to_vector(value, interpreter));
}

Value items(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("items", {}, 0, std::move(arguments));
  // A generator complains when it is used.
  auto iteration = std::make_shared<std::optional<Iteration>>();
  return Value::iterator(value, [&interpreter, value, iteration]() -> std::optional<Value> {
    if (value.is_undefined()) return std::nullopt;
    if (!value.is_dict()) fail("Can only get item pairs from a mapping.");
    if (!*iteration) iteration->emplace(Value::dict_view(value.shared_dict(), DictPart::kItems), interpreter);
    return (*iteration)->next();
  });
}

Value dict_sort(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("dictsort", {"case_sensitive", "by", "reverse"}, 0, std::move(arguments));
  const std::string by = bound.has(1) ? to_text(bound[1], interpreter).bytes() : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_dict()) fail(fmt::format("'{}' object has no attribute 'items'", type_name(value)));
  const size_t part = by == "key" ? 0 : 1;
  const bool is_sensitive = bound.flag(0);
  std::vector<Value> pairs = to_vector(Value::dict_view(value.shared_dict(), DictPart::kItems), interpreter);
  return Value::list(sorted(
      interpreter, std::move(pairs),
      [&](const Value& pair) { return is_sensitive ? pair.items()[part] : ignore_case(pair.items()[part]); },
      bound.integer(2, 0) != 0));
}

Value sort(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("sort", {"reverse", "case_sensitive", "attribute"}, 0, std::move(arguments));
  const bool is_sensitive = bound.flag(1);
  const Value attribute = bound.get(2, Value::none());
  std::vector<std::vector<Value>> attributes;
  if (attribute.is_string()) {
    for (Text& part : split(attribute.text(), ",", -1, false)) {
      attributes.push_back(attribute_parts(Value::string(std::move(part))));
    }
  } else {
    attributes.push_back(attribute_parts(attribute));
  }
  const auto key = [&](const Value& item) {
    std::vector<Value> keys;
    for (const auto& parts : attributes) {
      const Value part = attribute_of(interpreter, item, parts);
      keys.push_back(is_sensitive ? part : ignore_case(part));
    }
    return Value::list(std::move(keys));
  };
  return Value::list(sorted(interpreter, to_vector(value, interpreter), key, bound.integer(0, 0) != 0));
}

Value unique(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("unique", {"case_sensitive", "attribute"}, 0, std::move(arguments));
  const bool is_sensitive = bound.flag(0);
  const std::vector<Value> parts = attribute_parts(bound.get(1, Value::none()));
  auto seen = std::make_shared<std::set<std::string>>();
  auto iteration = std::make_shared<std::optional<Iteration>>();
  return Value::iterator(value, [&interpreter, value, is_sensitive, parts, seen, iteration]() -> std::optional<Value> {
    if (!*iteration) iteration->emplace(value, interpreter);
    while (std::optional<Value> item = (*iteration)->next()) {
      const Value part = attribute_of(interpreter, *item, parts);
      const std::string key = key_text(is_sensitive ? part : ignore_case(part));
      interpreter.budget().spend_bytes(key.size());
      if (seen->insert(key).second) return item;
    }
    return std::nullopt;
  });
}

template <bool kMax>
Value extreme(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound(kMax ? "max" : "min", {"case_sensitive", "attribute"}, 0, std::move(arguments));
  const bool is_sensitive = bound.flag(0);
  const std::vector<Value> parts = attribute_parts(bound.get(1, Value::none()));
  const auto key = [&](const Value& item) {
    const Value part = attribute_of(interpreter, item, parts);
    return is_sensitive ? part : ignore_case(part);
  };
  Iteration iteration(value, interpreter);
  std::optional<Value> best = iteration.next();
  if (!best) return Value::undefined("No aggregated item, sequence was empty.");
  Value best_key = key(*best);
  while (std::optional<Value> item = iteration.next()) {
    Value item_key = key(*item);
    const bool is_better =
        compare(kMax ? Comparison::kGreater : Comparison::kLess, item_key, best_key, interpreter.budget());
    if (!is_better) continue;
    best = std::move(item);
    best_key = std::move(item_key);
  }
  return *best;
}

Value group_by(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("groupby", {"attribute", "default", "case_sensitive"}, 1, std::move(arguments));
  const std::vector<Value> parts = attribute_parts(bound[0]);
  std::optional<Value> otherwise;
  if (bound.is_set(1)) otherwise = bound[1];
  const bool is_sensitive = bound.flag(2);
  const auto real_key = [&](const Value& item) { return attribute_of(interpreter, item, parts, otherwise); };
  const auto key = [&](const Value& item) { return is_sensitive ? real_key(item) : ignore_case(real_key(item)); };
  std::vector<Value> groups;
  std::vector<Value> members;
  std::optional<Value> current;
  const auto close = [&] {
    if (members.empty()) return;
    const Value grouper = is_sensitive ? *current : real_key(members[0]);
    groups.push_back(Value::tuple({grouper, Value::list(std::move(members))}));
    members.clear();
  };
  for (const Value& item : sorted(interpreter, to_vector(value, interpreter), key, false)) {
    Value item_key = key(item);
    if (!current || !equal(*current, item_key, &interpreter.budget())) {
      close();
      current = std::move(item_key);
    }
    members.push_back(item);
  }
  close();
  return Value::list(std::move(groups));
}

std::vector<Value> batches(Interpreter& interpreter, const Value& value, const Bound& bound) {
  const Value fill = bound.get(1, Value::none());
  std::vector<Value> lines;
  std::vector<Value> line;
  const auto is_full = [&] { return equal(Value::integer(static_cast<Integer>(line.size())), bound[0]); };
  for (const Value& item : to_vector(value, interpreter)) {
    if (is_full()) lines.push_back(Value::list(std::exchange(line, {})));
    line.push_back(item);
  }
  if (line.empty()) return lines;
  if (!fill.is_none()) {
    const Integer size = require_integer(bound[0]);
    while (static_cast<Integer>(line.size()) < size) {
      interpreter.budget().spend();
      line.push_back(fill);
    }
  }
  lines.push_back(Value::list(std::move(line)));
  return lines;
}

Value batch(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("batch", {"linecount", "fill_with"}, 1, std::move(arguments));
  return iterate_late(value, [&interpreter, value, bound] { return batches(interpreter, value, bound); });
}

std::vector<Value> slices(Interpreter& interpreter, const Value& value, const Bound& bound) {
  const std::vector<Value> items = to_vector(value, interpreter);
  if (require_integer(bound[0]) == 0) fail("integer division or modulo by zero");
  const Value fill = bound.get(1, Value::none());
  std::vector<Value> out;
  const size_t wanted = require_size(bound[0]);
  size_t at = 0;
  for (size_t i = 0; i < wanted; ++i) {
    interpreter.budget().spend();
    const bool has_extra = i < items.size() % wanted;
    const size_t end = at + items.size() / wanted + (has_extra ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at), items.begin() + static_cast<ptrdiff_t>(end));
    if (!fill.is_none() && !has_extra) part.push_back(fill);
    out.push_back(Value::list(std::move(part)));
    at = end;
  }
  return out;
}

Value slice(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("slice", {"slices", "fill_with"}, 1, std::move(arguments));
  return iterate_late(value, [&interpreter, value, bound] { return slices(interpreter, value, bound); });
}

Value sum(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("sum", {"attribute", "start"}, 0, std::move(arguments));
  const std::vector<Value> parts = attribute_parts(bound.get(0, Value::none()));
  Value total = bound.get(1, Value::integer(0));
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  Iteration iteration(value, interpreter);
  while (const std::optional<Value> item = iteration.next()) {
    total = binary(BinaryOperator::kAdd, total, attribute_of(interpreter, *item, parts), interpreter);
  }
  return total;
}

Value attribute_filter(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("attr", {"name"}, 1, std::move(arguments));
  const std::string name = bound.text(0).bytes();
  // Only real attributes: what a dict holds is none.
  if (value.is_dict()) {
    const Value found = get_attribute(Value::dict({}), name, interpreter);
    if (found.is_undefined()) return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  }
  return get_attribute(value, name, interpreter);
}

Value default_filter(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound("default", {"default_value", "boolean"}, 0, std::move(arguments));
  if (value.is_undefined() || (bound.flag(1) && !truthy(value))) return bound.get(0, Value::string(""));
  return value;
}

constexpr NamedFilter kFilters[] = {
    {"length", length_filter},
    {"count", length_filter},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"list", list},
    {"items", items},
    {"dictsort", dict_sort},
    {"sort", sort},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"groupby", group_by},
    {"batch", batch},
    {"slice", slice},
    {"sum", sum},
    {"attr", attribute_filter},
    {"default", default_filter},
    {"d", default_filter},
};

}  // namespace

FilterBody find_sequence_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace unspool::jinja
