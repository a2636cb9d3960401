// Python's operations on values. A Fault is thrown where Python raises.
#pragma once

#include <string>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/budget.h"
#include "jinja/object.h"
#include "jinja/value.h"

namespace unspool::jinja {

// --- compare.cc
bool truthy(const Value& value);
// ==. Long values are paid for where a budget is given.
bool equal(const Value& left, const Value& right, Budget* budget = nullptr);
// <, with the error of `operation` ("<", ">=") where Python has no order for the two.
bool less(const Value& left, const Value& right, std::string_view operation, Budget& budget);
bool compare(Comparison comparison, const Value& left, const Value& right, Budget& budget);
bool contains(const Value& container, const Value& item, Interpreter& interpreter);
bool is_hashable(const Value& value);
void check_hashable(const Value& value);
// Equal keys have equal texts, and only they.
std::string key_text(const Value& key);
// "str", "NoneType", "jinja2.runtime.Undefined": type(value).__name__, and the same with the module.
std::string type_name(const Value& value);
std::string object_description(const Value& value);  // "dict object", of messages about what it lacks
bool is_callable(const Value& value);

// --- arithmetic.cc
Value binary(BinaryOperator op, const Value& left, const Value& right, Interpreter& interpreter);
Value negative(const Value& value);
Value positive(const Value& value);
// Raises the error that using an undefined value raises.
[[noreturn]] void fail_undefined(const Value& value);
Integer add_checked(Integer left, Integer right);
Integer multiply_checked(Integer left, Integer right);

// --- print.cc: str() and repr()
Text to_text(const Value& value, Interpreter& interpreter);
Text repr(const Value& value, Interpreter& interpreter);
std::string number_text(double value);  // repr() of a float
std::string integer_text(Integer value);
std::string escape_html(std::string_view text);
Text escape_html(const Text& text);

// --- access.cc
Value get_attribute(const Value& object, std::string_view name, Interpreter& interpreter);
Value get_item(const Value& object, const Value& key, Interpreter& interpreter);
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                Interpreter& interpreter);
Integer length(const Value& value, Interpreter& interpreter);
Value call(const Value& callee, Arguments arguments, Interpreter& interpreter);

}  // namespace unspool::jinja
