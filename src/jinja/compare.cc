// Truth, equality, order and membership.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "jinja/interpreter.h"
#include "jinja/iteration.h"
#include "jinja/loop.h"
#include "jinja/operations.h"

namespace unspool::jinja {
namespace {

void pay(Budget* budget, size_t bytes) {
  if (budget != nullptr) budget->spend_bytes(bytes);
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right, Budget* budget) {
  if (left.size() != right.size()) return false;
  if (budget != nullptr) budget->spend(static_cast<int64_t>(left.size()));
  return std::equal(left.begin(), left.end(), right.begin(),
                    [&](const Value& a, const Value& b) { return a.is_same(b) || equal(a, b, budget); });
}

bool equal_dicts(const Dict& left, const Dict& right, Budget* budget) {
  if (left.size() != right.size()) return false;
  if (budget != nullptr) budget->spend(static_cast<int64_t>(left.size()));
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = right.find(entry.first);
    return other != nullptr && (entry.second.is_same(*other) || equal(entry.second, *other, budget));
  });
}

bool equal_numbers(const Value& left, const Value& right) {
  const auto a = left.as_integer();
  const auto b = right.as_integer();
  if (a && b) return *a == *b;
  return *left.as_number() == *right.as_number();
}

// Views of keys and items are sets to Python.
bool equal_views(const Value& left, const Value& right, Budget* budget) {
  if (left.dict_part() != right.dict_part() || left.dict_part() == DictPart::kValues) return left.is_same(right);
  const Dict& a = left.viewed_dict();
  const Dict& b = right.viewed_dict();
  if (left.dict_part() == DictPart::kItems) return equal_dicts(a, b, budget);
  return a.size() == b.size() && std::all_of(a.entries().begin(), a.entries().end(),
                                             [&](const Dict::Entry& entry) { return b.find(entry.first) != nullptr; });
}

bool equal_ranges(const Range& left, const Range& right) {
  const Integer size = left.size();
  if (size != right.size()) return false;
  return size == 0 || (left.start == right.start && (size == 1 || left.step == right.step));
}

[[noreturn]] void fail_order(const Value& left, const Value& right, std::string_view operation) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", operation, type_name(left),
                   type_name(right)));
}

}  // namespace

bool truthy(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_bool()) return value.as_bool();
  if (const auto integer = value.as_integer()) return *integer != 0;
  if (value.is_float()) return value.as_float() != 0;
  if (value.is_string()) return !value.text().empty();
  if (value.is_sequence()) return !value.items().empty();
  if (value.is_dict()) return value.as_dict().size() > 0;
  if (value.is_dict_view()) return value.viewed_dict().size() > 0;
  if (value.is_range()) return value.as_range().size() > 0;
  return true;
}

bool equal(const Value& left, const Value& right, Budget* budget) {
  if (left.as_number() && right.as_number()) return equal_numbers(left, right);
  if (left.is_string() && right.is_string()) {
    if (left.text().size() != right.text().size()) return false;
    pay(budget, left.text().size());
    return left.text().view() == right.text().view();
  }
  if (left.is_sequence() && right.is_sequence()) {
    return left.is_tuple() == right.is_tuple() && equal_items(left.items(), right.items(), budget);
  }
  if (left.is_dict() && right.is_dict()) return equal_dicts(left.as_dict(), right.as_dict(), budget);
  if (left.is_undefined() && right.is_undefined()) return true;
  if (left.is_dict_view() && right.is_dict_view()) return equal_views(left, right, budget);
  if (left.is_range() && right.is_range()) return equal_ranges(left.as_range(), right.as_range());
  return left.is_same(right);
}

bool less(const Value& left, const Value& right, std::string_view operation, Budget& budget) {
  if (left.as_number() && right.as_number()) {
    const auto a = left.as_integer();
    const auto b = right.as_integer();
    return a && b ? *a < *b : *left.as_number() < *right.as_number();
  }
  if (left.is_string() && right.is_string()) {
    pay(&budget, std::min(left.text().size(), right.text().size()));
    return left.text().view() < right.text().view();  // UTF-8 sorts as its code points do
  }
  if (!left.is_sequence() || !right.is_sequence() || left.is_tuple() != right.is_tuple()) {
    fail_order(left, right, operation);
  }
  const auto& a = left.items();
  const auto& b = right.items();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    budget.spend();
    if (!a[i].is_same(b[i]) && !equal(a[i], b[i], &budget)) return less(a[i], b[i], operation, budget);
  }
  return a.size() < b.size();
}

bool compare(Comparison comparison, const Value& left, const Value& right, Budget& budget) {
  const bool is_nan =
      (left.is_float() && std::isnan(left.as_float())) || (right.is_float() && std::isnan(right.as_float()));
  switch (comparison) {
    case Comparison::kEqual:
      return equal(left, right, &budget);
    case Comparison::kNotEqual:
      return !equal(left, right, &budget);
    case Comparison::kLess:
      return less(left, right, "<", budget);
    case Comparison::kGreater:
      // Only the error knows which side was written first.
      if (!left.as_number() && !left.is_string() && !left.is_sequence()) fail_order(left, right, ">");
      if (!right.as_number() && !right.is_string() && !right.is_sequence()) fail_order(left, right, ">");
      return less(right, left, ">", budget);
    case Comparison::kLessEqual:
      return !less(right, left, "<=", budget) && !is_nan;
    case Comparison::kGreaterEqual:
      return !less(left, right, ">=", budget) && !is_nan;
    case Comparison::kIn:
    case Comparison::kNotIn:
      break;
  }
  return false;
}

bool contains(const Value& container, const Value& item, Interpreter& interpreter) {
  Budget& budget = interpreter.budget();
  if (container.is_string()) {
    if (!item.is_string()) {
      fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    }
    budget.spend_bytes(container.text().size());
    return container.text().view().find(item.text().view()) != std::string_view::npos;
  }
  const auto has_key = [&](const Dict& dict) {
    budget.spend_bytes(item.is_string() ? item.text().size() : 0);
    return dict.find(item) != nullptr;
  };
  if (container.is_dict()) return has_key(container.as_dict());
  if (container.is_dict_view() && container.dict_part() == DictPart::kKeys) return has_key(container.viewed_dict());
  if (container.is_range() && item.as_integer()) {
    const Range& range = container.as_range();
    const Integer offset = *item.as_integer() - range.start;
    return offset % range.step == 0 && offset / range.step >= 0 && offset / range.step < range.size();
  }
  if (!is_iterable(container)) fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  Iteration iteration(container, interpreter);
  while (const std::optional<Value> each = iteration.next()) {
    if (each->is_same(item) || equal(*each, item, &budget)) return true;
  }
  return false;
}

namespace {

// The value, or what a tuple has within it; null where there is none.
const Value* unhashable_part(const Value& value) {
  if (value.is_list() || value.is_dict() || (value.is_dict_view() && value.dict_part() != DictPart::kValues)) {
    return &value;
  }
  if (!value.is_tuple()) return nullptr;
  for (const Value& item : value.items()) {
    if (const Value* const part = unhashable_part(item)) return part;
  }
  return nullptr;
}

}  // namespace

bool is_hashable(const Value& value) {
  return unhashable_part(value) == nullptr;
}

void check_hashable(const Value& value) {
  if (const Value* const part = unhashable_part(value)) fail(fmt::format("unhashable type: '{}'", type_name(*part)));
}

std::string key_text(const Value& key) {
  if (key.is_string()) return fmt::format("s{}", key.text().view());
  if (const auto integer = key.as_integer()) return fmt::format("i{}", integer_text(*integer));
  if (key.is_float()) {
    const double value = key.as_float();
    const bool is_integral = std::trunc(value) == value && std::fabs(value) < 1e30;
    return is_integral ? fmt::format("i{}", integer_text(static_cast<Integer>(value)))
                       : fmt::format("f{}", number_text(value));
  }
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (key.is_object()) return fmt::format("o{}", fmt::ptr(&key.as_object()));
  if (key.is_iterator()) return fmt::format("o{}", fmt::ptr(&key.as_iterator()));
  check_hashable(key);
  if (key.is_range()) {
    const Range& range = key.as_range();
    return fmt::format("r{},{},{}", integer_text(range.start), integer_text(range.stop), integer_text(range.step));
  }
  if (!key.is_tuple()) return fmt::format("v{}", fmt::ptr(&key.viewed_dict()));
  std::string text = "t";
  for (const Value& item : key.items()) {
    const std::string part = key_text(item);
    text += fmt::format("{}:{}", part.size(), part);
  }
  return text;
}

std::string type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_markup()) return "Markup";
  if (value.is_string()) return "str";
  if (value.is_list()) return "list";
  if (value.is_tuple()) return "tuple";
  if (value.is_dict()) return "dict";
  if (value.is_range()) return "range";
  if (value.is_iterator()) return "generator";
  if (value.is_undefined()) return "Undefined";
  if (value.is_object()) return value.as_object().type_name();
  return value.dict_part() == DictPart::kKeys     ? "dict_keys"
         : value.dict_part() == DictPart::kValues ? "dict_values"
                                                  : "dict_items";
}

std::string object_description(const Value& value) {
  if (value.is_none()) return "None";
  std::string module;
  if (value.is_markup()) module = "markupsafe.";
  if (value.is_object()) {
    if (value.as_object().type_name() == "TemplateNamespace") {
      module = "transformers.utils.chat_template_utils.";
    } else if (dynamic_cast<Function*>(&value.as_object()) == nullptr) {
      module = "jinja2.runtime.";
    }
  }
  return module + type_name(value) + " object";
}

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.as_object().is_callable());
}

}  // namespace unspool::jinja
