// What several filters share.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/filters.h"
#include "jinja/interpreter.h"
#include "jinja/operations.h"

namespace unspool::jinja {

// soft_str: str(), which keeps Markup what it is.
Value soft_string(Interpreter& interpreter, const Value& value);

// "a.b.0": the parts of an attribute, each a string or an integer. None for nothing.
std::vector<Value> attribute_parts(const Value& attribute);
// The attribute of an item; `otherwise` in place of each undefined part on the way.
Value attribute_of(Interpreter& interpreter, const Value& item, const std::vector<Value>& parts,
                   const std::optional<Value>& otherwise = std::nullopt);

// Lower case for strings, everything else as it is.
Value ignore_case(const Value& value);

// sorted(values, key=key): stable, with the errors and costs of `<`.
std::vector<Value> sorted(Interpreter& interpreter, std::vector<Value> values,
                          const std::function<Value(const Value&)>& key, bool reverse);

}  // namespace unspool::jinja
