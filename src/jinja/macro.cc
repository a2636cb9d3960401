#include "jinja/macro.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {

std::string Macro::quoted_name() const {
  return is_anonymous() ? "None" : "'" + statement_.name + "'";
}

Text Macro::repr(Interpreter&) const {
  return Text(fmt::format("<Macro {}>", is_anonymous() ? "anonymous" : quoted_name()));
}

bool Macro::has_parameter(std::string_view name) const {
  const auto& parameters = statement_.signature.parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const ExpressionPtr& parameter) { return parameter->name == name; });
}

std::optional<Value> Macro::attribute(Interpreter&, std::string_view name) {
  const Signature& signature = statement_.signature;
  if (name == "name") return is_anonymous() ? Value::none() : Value::string(statement_.name);
  if (name == "arguments") {
    std::vector<Value> names;
    names.reserve(signature.parameters.size());
    for (const ExpressionPtr& parameter : signature.parameters) names.push_back(Value::string(parameter->name));
    return Value::tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::boolean(signature.kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(signature.varargs_slot >= 0);
  if (name == "caller") return Value::boolean(signature.uses_caller);
  if (name == "explicit_caller") return Value::boolean(has_parameter("caller"));
  return std::nullopt;
}

// Python's own rules do not apply: what is missing is undefined, and there is a special `caller`.
void Macro::bind(Interpreter& interpreter, Arguments arguments, Frame& frame) const {
  const Signature& signature = statement_.signature;
  const size_t num_parameters = signature.parameters.size();
  std::vector<Value>& positional = arguments.positional;
  std::vector<std::optional<Value>> values(num_parameters);
  bool found_caller = false;
  for (size_t i = 0; i < num_parameters; ++i) {
    const std::string& name = signature.parameters[i]->name;
    if (i < positional.size()) {
      values[i] = positional[i];
    } else {
      values[i] = arguments.take(name);
      found_caller = found_caller || name == "caller";
    }
  }
  if (positional.size() >= num_parameters) found_caller = has_parameter("caller");

  if (signature.uses_caller && !found_caller) {
    std::optional<Value> caller = arguments.take("caller");
    const bool has_one = caller && !caller->is_none();
    if (signature.caller_slot >= 0) {
      frame.slots[static_cast<size_t>(signature.caller_slot)] =
          has_one ? *std::move(caller) : Value::undefined("No caller defined");
    }
  }
  if (signature.kwargs_slot >= 0) {
    Dict kwargs;
    for (auto& [name, value] : arguments.keywords) kwargs.set(Value::string(name), std::move(value));
    frame.slots[static_cast<size_t>(signature.kwargs_slot)] = Value::dict(std::move(kwargs));
  } else if (!arguments.keywords.empty()) {
    const bool is_caller = std::any_of(arguments.keywords.begin(), arguments.keywords.end(),
                                       [](const auto& keyword) { return keyword.first == "caller"; });
    if (is_caller) {
      fail(fmt::format(
          "macro {} was invoked with two values for the special caller argument. This is most likely a bug.",
          quoted_name()));
    }
    fail(fmt::format("macro {} takes no keyword argument '{}'", quoted_name(), arguments.keywords[0].first));
  }
  if (signature.varargs_slot >= 0) {
    std::vector<Value> rest;
    for (size_t i = num_parameters; i < positional.size(); ++i) rest.push_back(positional[i]);
    frame.slots[static_cast<size_t>(signature.varargs_slot)] = Value::tuple(std::move(rest));
  } else if (positional.size() > num_parameters) {
    fail(fmt::format("macro {} takes not more than {} argument(s)", quoted_name(), num_parameters));
  }

  // All are bound before the first default is evaluated; a default sees the parameters before it.
  for (size_t i = 0; i < num_parameters; ++i) {
    frame.slots[static_cast<size_t>(signature.parameters[i]->slot.slot)] = std::move(values[i]);
  }
  const size_t num_required = num_parameters - signature.defaults.size();
  for (size_t i = 0; i < num_parameters; ++i) {
    const auto slot = static_cast<size_t>(signature.parameters[i]->slot.slot);
    if (frame.slots[slot]) continue;
    frame.slots[slot] =
        i < num_required
            ? Value::undefined(fmt::format("parameter '{}' was not provided", signature.parameters[i]->name))
            : interpreter.evaluate(*signature.defaults[i - num_required], frame);
  }
}

Value Macro::call(Interpreter& interpreter, Arguments arguments) {
  const Budget::Level level(interpreter.budget());
  Frame& frame = interpreter.new_frame(&closure_, statement_.signature.num_slots);
  interpreter.enter_function(statement_.scope, frame);
  bind(interpreter, std::move(arguments), frame);
  return Value::string(interpreter.run_macro(statement_, frame));
}

}  // namespace unspool::jinja
