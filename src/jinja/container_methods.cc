#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "jinja/arguments.h"
#include "jinja/interpreter.h"
#include "jinja/iteration.h"
#include "jinja/methods.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

void require_no_arguments(std::string_view name, const Arguments& arguments) {
  if (arguments.positional.empty() && arguments.keywords.empty()) return;
  fail(
      fmt::format("{}() takes no arguments ({} given)", name, arguments.positional.size() + arguments.keywords.size()));
}

Value dict_get(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("get", {"key", "default"}, 1, std::move(arguments));
  interpreter.budget().spend_bytes(bound[0].is_string() ? bound[0].text().size() : 0);
  const Value* const value = self.as_dict().find(bound[0]);
  return value != nullptr ? *value : bound.get(1, Value::none());
}

template <DictPart kPart>
Value dict_part(Interpreter&, const Value& self, Arguments arguments) {
  require_no_arguments("dict", arguments);
  return Value::dict_view(self.shared_dict(), kPart);
}

// Nothing changes a dict or a list, so that the same one serves as its copy.
Value copy(Interpreter&, const Value& self, Arguments arguments) {
  require_no_arguments("copy", arguments);
  return self;
}

Value sequence_index(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("index", {"value", "start", "stop"}, 1, std::move(arguments));
  const auto size = static_cast<Integer>(self.items().size());
  const auto position = [&](Integer at) { return std::clamp<Integer>(at < 0 ? at + size : at, 0, size); };
  const Integer stop = position(bound.integer(2, size));
  for (Integer i = position(bound.integer(1, 0)); i < stop; ++i) {
    interpreter.budget().spend();
    if (equal(self.items()[static_cast<size_t>(i)], bound[0], &interpreter.budget())) return Value::integer(i);
  }
  if (self.is_tuple()) fail("tuple.index(x): x not in tuple");
  fail(fmt::format("{} is not in list", repr(bound[0], interpreter).bytes()));
}

Value sequence_count(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("count", {"value"}, 1, std::move(arguments));
  Integer count = 0;
  for (const Value& item : self.items()) {
    interpreter.budget().spend();
    if (equal(item, bound[0], &interpreter.budget())) ++count;
  }
  return Value::integer(count);
}

// Where a number stands in a range.
std::optional<Integer> place_in(const Range& range, const Value& value) {
  const auto number = value.as_number();
  if (!number || std::trunc(*number) != *number || std::fabs(*number) > 1e37) return std::nullopt;
  const Integer distance = value.as_integer().value_or(static_cast<Integer>(*number)) - range.start;
  if (distance % range.step != 0) return std::nullopt;
  const Integer place = distance / range.step;
  return place >= 0 && place < range.size() ? std::optional<Integer>(place) : std::nullopt;
}

Value range_index(Interpreter& interpreter, const Value& self, Arguments arguments) {
  const Bound bound("index", {"value"}, 1, std::move(arguments));
  const auto place = place_in(self.as_range(), bound[0]);
  if (!place) fail(fmt::format("{} is not in range", repr(bound[0], interpreter).bytes()));
  return Value::integer(*place);
}

Value range_count(Interpreter&, const Value& self, Arguments arguments) {
  const Bound bound("count", {"value"}, 1, std::move(arguments));
  return Value::integer(place_in(self.as_range(), bound[0]) ? 1 : 0);
}

Value is_integer(Interpreter&, const Value& self, Arguments arguments) {
  require_no_arguments("is_integer", arguments);
  return Value::boolean(std::isfinite(self.as_float()) && std::trunc(self.as_float()) == self.as_float());
}

Value bit_length(Interpreter&, const Value& self, Arguments arguments) {
  require_no_arguments("bit_length", arguments);
  Integer bits = 0;
  for (Integer value = *self.as_integer(); value != 0; value /= 2) ++bits;
  return Value::integer(bits);
}

}  // namespace

Function::Body find_method(const Value& value, std::string_view name) {
  if (value.is_string()) return find_string_method(name);
  if (value.is_dict()) {
    if (name == "get") return dict_get;
    if (name == "items") return dict_part<DictPart::kItems>;
    if (name == "keys") return dict_part<DictPart::kKeys>;
    if (name == "values") return dict_part<DictPart::kValues>;
    if (name == "copy") return copy;
  } else if (value.is_sequence()) {
    if (name == "index") return sequence_index;
    if (name == "count") return sequence_count;
    if (name == "copy" && value.is_list()) return copy;
  } else if (value.is_range()) {
    if (name == "index") return range_index;
    if (name == "count") return range_count;
  } else if (value.is_float()) {
    if (name == "is_integer") return is_integer;
  } else if (value.as_integer()) {
    if (name == "bit_length") return bit_length;
  }
  return nullptr;
}

bool is_mutating_method(const Value& value, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "clear", "pop",    "reverse",
                                                  "insert", "sort",  "extend", "remove"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto has = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (value.is_list() && has(kOfLists)) || (value.is_dict() && has(kOfDicts));
}

std::optional<Value> number_attribute(const Value& value, std::string_view name) {
  if (!value.as_number()) return std::nullopt;
  if (name == "real") return value.is_float() ? value : Value::integer(*value.as_integer());
  if (name == "imag") return value.is_float() ? Value::number(0) : Value::integer(0);
  if (value.is_float()) return std::nullopt;
  if (name == "numerator") return Value::integer(*value.as_integer());
  if (name == "denominator") return Value::integer(1);
  return std::nullopt;
}

}  // namespace unspool::jinja
