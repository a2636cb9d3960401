// Tests: what stands after `is`.
#include <fmt/format.h>

#include "jinja/filter_support.h"
#include "jinja/iteration.h"
#include "jinja/string_search.h"

namespace unspool::jinja {
namespace {

void require_no_arguments(const Arguments& arguments) {
  const Bound bound("test", {}, 0, arguments);
}

template <bool (*kHolds)(const Value&)>
Value of_type(Interpreter&, const Value& value, Arguments arguments) {
  require_no_arguments(arguments);
  return Value::boolean(kHolds(value));
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is_bool();
}
bool is_true(const Value& value) {
  return value.is_bool() && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is_bool() && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is_integer();
}
bool is_float(const Value& value) {
  return value.is_float();
}
bool is_number(const Value& value) {
  return value.as_number().has_value();
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
// Has a length and items by key: undefined has both.
bool is_sequence(const Value& value) {
  return value.is_string() || value.is_sequence() || value.is_dict() || value.is_range() || value.is_undefined();
}
bool is_escaped(const Value& value) {
  return value.is_markup();
}

Value modulo(Interpreter& interpreter, const Value& value, const Value& by) {
  return binary(BinaryOperator::kModulo, value, by, interpreter);
}

template <int kRemainder>
Value remainder_of_two(Interpreter& interpreter, const Value& value, Arguments arguments) {
  require_no_arguments(arguments);
  return Value::boolean(equal(modulo(interpreter, value, Value::integer(2)), Value::integer(kRemainder)));
}

Value divisible_by(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("divisibleby", {"num"}, 1, std::move(arguments));
  return Value::boolean(equal(modulo(interpreter, value, bound[0]), Value::integer(0)));
}

template <bool kUpper>
Value is_case(Interpreter& interpreter, const Value& value, Arguments arguments) {
  require_no_arguments(arguments);
  const Text text = to_text(value, interpreter);
  interpreter.budget().spend_bytes(4 * text.size());
  return Value::boolean(is_all_case(text.view(), kUpper));
}

template <Comparison kComparison>
Value compares(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("comparison", {"other"}, 1, std::move(arguments));
  return Value::boolean(compare(kComparison, value, bound[0], interpreter.budget()));
}

Value is_in(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("in", {"seq"}, 1, std::move(arguments));
  return Value::boolean(contains(bound[0], value, interpreter));
}

Value same_as(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound("sameas", {"other"}, 1, std::move(arguments));
  return Value::boolean(value.is_same(bound[0]));
}

template <FilterBody (*kFind)(std::string_view)>
Value is_known(Interpreter&, const Value& value, Arguments arguments) {
  require_no_arguments(arguments);
  check_hashable(value);
  return Value::boolean(value.is_string() && kFind(value.text().view()) != nullptr);
}

constexpr NamedFilter kTests[] = {
    {"defined", of_type<is_defined>},
    {"undefined", of_type<is_undefined>},
    {"none", of_type<is_none>},
    {"boolean", of_type<is_boolean>},
    {"true", of_type<is_true>},
    {"false", of_type<is_false>},
    {"integer", of_type<is_integer>},
    {"float", of_type<is_float>},
    {"number", of_type<is_number>},
    {"string", of_type<is_string>},
    {"mapping", of_type<is_mapping>},
    {"sequence", of_type<is_sequence>},
    {"iterable", of_type<is_iterable>},
    {"callable", of_type<is_callable>},
    {"escaped", of_type<is_escaped>},
    {"odd", remainder_of_two<1>},
    {"even", remainder_of_two<0>},
    {"divisibleby", divisible_by},
    {"lower", is_case<false>},
    {"upper", is_case<true>},
    {"in", is_in},
    {"sameas", same_as},
    {"filter", is_known<find_filter>},
    {"test", is_known<find_test>},
    {"eq", compares<Comparison::kEqual>},
    {"equalto", compares<Comparison::kEqual>},
    {"==", compares<Comparison::kEqual>},
    {"ne", compares<Comparison::kNotEqual>},
    {"!=", compares<Comparison::kNotEqual>},
    {"lt", compares<Comparison::kLess>},
    {"lessthan", compares<Comparison::kLess>},
    {"<", compares<Comparison::kLess>},
    {"le", compares<Comparison::kLessEqual>},
    {"<=", compares<Comparison::kLessEqual>},
    {"gt", compares<Comparison::kGreater>},
    {"greaterthan", compares<Comparison::kGreater>},
    {">", compares<Comparison::kGreater>},
    {"ge", compares<Comparison::kGreaterEqual>},
    {">=", compares<Comparison::kGreaterEqual>},
};

}  // namespace

TestBody find_test(std::string_view name) {
  return find_in(kTests, name);
}

}  // namespace unspool::jinja
