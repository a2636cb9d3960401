// Attributes, items, slices, calls: what the sandbox of jinja2 lets a template reach.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/arguments.h"
#include "jinja/characters.h"
#include "jinja/interpreter.h"
#include "jinja/loop.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_description(object), name));
}

Value unsafe_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

// What Python's getattr finds, or what the sandbox gives in its place; nullopt where there is no such attribute.
std::optional<Value> python_attribute(const Value& object, std::string_view name, Interpreter& interpreter) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_object()) {
    if (std::optional<Value> value = object.as_object().attribute(interpreter, name)) {
      return name.starts_with('_') ? unsafe_attribute(object, name) : value;
    }
  }
  // Every object has these, and none of them is for a template.
  if (name == "__class__" || name == "__init__" || name == "__doc__" || name == "__repr__" || name == "__str__") {
    return unsafe_attribute(object, name);
  }
  if (is_mutating_method(object, name)) return unsafe_attribute(object, name);
  if (const Function::Body method = find_method(object, name)) {
    return Value::object(std::make_shared<Function>(std::string(name), method, object));
  }
  return number_attribute(object, name);
}

// obj[key] of Python; nullopt where it raises TypeError or LookupError.
std::optional<Value> python_item(const Value& object, const Value& key, Interpreter& interpreter) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_dict()) {
    interpreter.budget().spend_bytes(key.is_string() ? key.text().size() : 0);
    if (!is_hashable(key)) return std::nullopt;
    const Value* value = object.as_dict().find(key);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  const auto integer = key.as_integer();
  if (!integer) return std::nullopt;
  const auto position = [&](Integer size) -> std::optional<Integer> {
    const Integer at = *integer < 0 ? *integer + size : *integer;
    return at >= 0 && at < size ? std::optional<Integer>(at) : std::nullopt;
  };
  if (object.is_sequence()) {
    const auto at = position(static_cast<Integer>(object.items().size()));
    return at ? std::optional<Value>(object.items()[static_cast<size_t>(*at)]) : std::nullopt;
  }
  if (object.is_range()) {
    const auto at = position(object.as_range().size());
    return at ? std::optional<Value>(Value::integer(object.as_range().at(*at))) : std::nullopt;
  }
  if (!object.is_string()) return std::nullopt;
  const Text& text = object.text();
  interpreter.budget().spend_bytes(text.size());
  const auto at = position(static_cast<Integer>(unicode::count_characters(text.view())));
  if (!at) return std::nullopt;
  const size_t begin = character_offset(text.view(), static_cast<size_t>(*at));
  return Value::string(text.slice(begin, begin + unicode::decode(text.view(), begin).size_bytes), object.is_markup());
}

struct SliceBounds {
  Integer start;
  Integer stop;
  Integer step;
};

// slice.indices(): bounds within a sequence of `size`.
SliceBounds slice_bounds(const Value& start, const Value& stop, const Value& step, Integer size) {
  const auto bound = [&](const Value& value) {
    const auto integer = value.as_integer();
    if (!integer) fail("slice indices must be integers or None or have an __index__ method");
    return *integer;
  };
  SliceBounds out{0, 0, step.is_none() ? 1 : bound(step)};
  if (out.step == 0) fail("slice step cannot be zero");
  const bool is_forward = out.step > 0;
  const Integer lowest = is_forward ? 0 : -1;
  const Integer highest = is_forward ? size : size - 1;
  const auto clamp = [&](const Value& value, Integer otherwise) {
    if (value.is_none()) return otherwise;
    const Integer given = bound(value);
    return std::clamp(given < 0 ? given + size : given, lowest, highest);
  };
  out.start = clamp(start, is_forward ? lowest : highest);
  out.stop = clamp(stop, is_forward ? highest : lowest);
  return out;
}

Value slice_string(const Value& object, const SliceBounds& bounds) {
  const Text& text = object.text();
  const std::string_view view = text.view();
  if (bounds.step == 1) {
    if (bounds.start >= bounds.stop) return Value::string(Text(), object.is_markup());
    const size_t begin = character_offset(view, static_cast<size_t>(bounds.start));
    const size_t end = begin + character_offset(view.substr(begin), static_cast<size_t>(bounds.stop - bounds.start));
    return Value::string(text.slice(begin, end), object.is_markup());
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < view.size(); at += unicode::decode(view, at).size_bytes) offsets.push_back(at);
  offsets.push_back(view.size());
  Text out;
  const Range range{bounds.start, bounds.stop, bounds.step};
  for (Integer i = 0; i < range.size(); ++i) {
    const auto at = static_cast<size_t>(range.at(i));
    out.append(text, offsets[at], offsets[at + 1]);
  }
  return Value::string(std::move(out), object.is_markup());
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name, Interpreter& interpreter) {
  if (std::optional<Value> value = python_attribute(object, name, interpreter)) return *std::move(value);
  if (object.is_dict()) {
    if (const Value* value = object.as_dict().find(name)) return *value;
  }
  return no_attribute(object, name);
}

Value get_item(const Value& object, const Value& key, Interpreter& interpreter) {
  if (std::optional<Value> value = python_item(object, key, interpreter)) return *std::move(value);
  if (!key.is_string()) {
    return Value::undefined(
        fmt::format("{} has no element {}", object_description(object), repr(key, interpreter).bytes()));
  }
  const std::string& name = key.text().bytes();
  if (std::optional<Value> value = python_attribute(object, name, interpreter)) return *std::move(value);
  return Value::undefined(
      fmt::format("'{}' has no attribute {}", object_description(object), repr(key, interpreter).bytes()));
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                Interpreter& interpreter) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is_dict()) fail("unhashable type: 'slice'");
  if (!object.is_string() && !object.is_sequence() && !object.is_range()) {
    fail(fmt::format("'{}' object is not subscriptable", type_name(object)));
  }
  if (object.is_string()) {
    const std::string_view view = object.text().view();
    // With a step, every character is found and copied on its own.
    const bool is_plain = step.is_none() || (step.as_integer() && *step.as_integer() == 1);
    interpreter.budget().spend_bytes((is_plain ? 2 : 64) * view.size());
    const auto size = static_cast<Integer>(unicode::count_characters(view));
    return slice_string(object, slice_bounds(start, stop, step, size));
  }
  const SliceBounds bounds = slice_bounds(start, stop, step, length(object, interpreter));
  if (object.is_range()) {
    const Range& range = object.as_range();
    return Value::range({range.at(bounds.start), range.at(bounds.stop), range.step * bounds.step});
  }
  const Range positions{bounds.start, bounds.stop, bounds.step};
  interpreter.budget().spend(static_cast<int64_t>(positions.size()));
  std::vector<Value> items;
  for (Integer i = 0; i < positions.size(); ++i) items.push_back(object.items()[static_cast<size_t>(positions.at(i))]);
  return object.is_tuple() ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Integer length(const Value& value, Interpreter& interpreter) {
  if (value.is_string()) {
    interpreter.budget().spend_bytes(value.text().size());
    return static_cast<Integer>(unicode::count_characters(value.text().view()));
  }
  if (value.is_sequence()) return static_cast<Integer>(value.items().size());
  if (value.is_dict()) return static_cast<Integer>(value.as_dict().size());
  if (value.is_dict_view()) return static_cast<Integer>(value.viewed_dict().size());
  if (value.is_range()) return value.as_range().size();
  if (value.is_undefined()) return 0;
  if (value.is_object()) {
    if (const auto size = value.as_object().length(interpreter)) return *size;
  }
  fail(fmt::format("object of type '{}' has no len()", type_name(value)));
}

Value call(const Value& callee, Arguments arguments, Interpreter& interpreter) {
  interpreter.budget().spend();
  if (callee.is_undefined()) fail_undefined(callee);
  if (!callee.is_object() || !callee.as_object().is_callable()) {
    fail(fmt::format("'{}' object is not callable", type_name(callee)));
  }
  const Budget::Level level(interpreter.budget());
  return callee.as_object().call(interpreter, std::move(arguments));
}

}  // namespace unspool::jinja
