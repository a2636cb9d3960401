// The methods of strings, dicts, lists and numbers that a template may call.
#pragma once

#include <optional>
#include <string_view>

#include "jinja/object.h"
#include "jinja/value.h"

namespace unspool::jinja {

// nullptr where the type has no such method.
Function::Body find_method(const Value& value, std::string_view name);
Function::Body find_string_method(std::string_view name);  // string_methods.cc, string_case_methods.cc
Function::Body find_string_case_method(std::string_view name);
// Methods that would change a list or a dict: the sandbox has them, and refuses them.
bool is_mutating_method(const Value& value, std::string_view name);
// Attributes of numbers that are no methods.
std::optional<Value> number_attribute(const Value& value, std::string_view name);

struct NamedMethod {
  std::string_view name;
  Function::Body body;
};

}  // namespace unspool::jinja
