#include "jinja/object.h"

#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/operations.h"

namespace unspool::jinja {

Text Object::repr(Interpreter&) const {
  return Text(fmt::format("<{}>", type_name()));
}

std::optional<Value> Object::attribute(Interpreter&, std::string_view) {
  return std::nullopt;
}

Value Object::call(Interpreter&, Arguments) {
  fail(fmt::format("'{}' object is not callable", type_name()));
}

std::optional<Integer> Object::length(Interpreter&) {
  return std::nullopt;
}

Text Function::repr(Interpreter&) const {
  return Text(fmt::format("<function {}>", name_));
}

Value Function::call(Interpreter& interpreter, Arguments arguments) {
  return body_(interpreter, self_, std::move(arguments));
}

Text Namespace::repr(Interpreter& interpreter) const {
  Text text("<Namespace {");
  const char* separator = "";
  for (const auto& [name, value] : attributes_.entries()) {
    text.append(std::exchange(separator, ", "), Origin::kTemplate);
    text.append(jinja::repr(name, interpreter));
    text.append(": ", Origin::kTemplate);
    text.append(jinja::repr(value, interpreter));
  }
  text.append("}>", Origin::kTemplate);
  return text;
}

std::optional<Value> Namespace::attribute(Interpreter&, std::string_view name) {
  const Value* const value = attributes_.find(name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

void Namespace::set(const Value& name, Value value) {
  if (name.is_string() && name.text().view().starts_with('_')) {
    fail(
        fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'. Please "
                    "rename the attribute.",
                    name.text().view()));
  }
  attributes_.set(name, std::move(value));
}

}  // namespace unspool::jinja
