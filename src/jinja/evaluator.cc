// Expressions.
#include <fmt/format.h>

#include "jinja/filters.h"
#include "jinja/interpreter.h"
#include "jinja/iteration.h"
#include "jinja/operations.h"
#include "jinja/template_error.h"

namespace unspool::jinja {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& node, Frame& frame) {
  budget_.spend();
  if (node.kind == Kind::kConstant) return node.constant;
  if (node.kind == Kind::kName) return evaluate_name(node, frame);
  const Budget::Level level(budget_);
  const auto operand = [&](size_t i) { return evaluate(*node.operands[i], frame); };
  const auto optional_operand = [&](size_t i) { return node.operands[i] ? operand(i) : Value::none(); };
  switch (node.kind) {
    case Kind::kConstant:
    case Kind::kName:
    case Kind::kNamespaceTarget:
      break;
    case Kind::kTuple:
      return Value::tuple(evaluate_all(node.operands, frame));
    case Kind::kList:
      return Value::list(evaluate_all(node.operands, frame));
    case Kind::kDict:
      return evaluate_dict(node, frame);
    case Kind::kBinary: {
      const Value left = operand(0);
      return binary(node.op, left, operand(1), *this);
    }
    case Kind::kAnd: {
      Value left = operand(0);
      return truthy(left) ? operand(1) : left;
    }
    case Kind::kOr: {
      Value left = operand(0);
      return truthy(left) ? left : operand(1);
    }
    case Kind::kNot:
      return Value::boolean(!truthy(operand(0)));
    case Kind::kNegative:
      return negative(operand(0));
    case Kind::kPositive:
      return positive(operand(0));
    case Kind::kConcat: {
      Text text;
      // All operands are there before the first becomes text.
      for (const Value& value : evaluate_all(node.operands, frame)) text.append(to_text(value, *this));
      budget_.spend_bytes(text.size());
      return Value::string(std::move(text));
    }
    case Kind::kCompare:
      return evaluate_compare(node, frame);
    case Kind::kConditional:
      if (truthy(operand(0))) return operand(1);
      if (node.operands[2]) return operand(2);
      return Value::undefined(fmt::format(
          "the inline if-expression on line {} evaluated to false and no else section was defined.", node.line));
    case Kind::kAttribute:
      return get_attribute(operand(0), node.name, *this);
    case Kind::kItem: {
      const Value object = operand(0);
      return get_item(object, operand(1), *this);
    }
    case Kind::kSlice: {
      const Value object = operand(0);
      const Value start = optional_operand(1);
      const Value stop = optional_operand(2);
      return get_slice(object, start, stop, optional_operand(3), *this);
    }
    case Kind::kCall:
      return evaluate_call(node, frame);
    case Kind::kFilter: {
      if (find_filter(node.name) == nullptr) fail(fmt::format("No filter named '{}' found.", node.name));
      const Value value = node.operands[0] ? operand(0) : Value::string(*captured_);
      return apply_filter(node.name, value, evaluate_arguments(node.arguments, frame));
    }
    case Kind::kTest: {
      if (find_test(node.name) == nullptr) fail(fmt::format("No test named '{}' found.", node.name));
      const Value value = operand(0);
      return apply_test(node.name, value, evaluate_arguments(node.arguments, frame));
    }
  }
  return Value::none();
}

Value Interpreter::evaluate_name(const Expression& node, Frame& frame) {
  const std::optional<Value>& value = variable(node.slot, frame);
  return value ? *value : Value::undefined_name(node.name);
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& nodes, Frame& frame) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const ExpressionPtr& node : nodes) values.push_back(evaluate(*node, frame));
  return values;
}

Value Interpreter::evaluate_dict(const Expression& node, Frame& frame) {
  Dict dict;
  for (size_t i = 0; i + 1 < node.operands.size(); i += 2) {
    Value key = evaluate(*node.operands[i], frame);
    dict.set(std::move(key), evaluate(*node.operands[i + 1], frame));
  }
  return Value::dict(std::move(dict));
}

// a < b < c is a < b and b < c, each operand evaluated once and only as far as needed.
Value Interpreter::evaluate_compare(const Expression& node, Frame& frame) {
  Value left = evaluate(*node.operands[0], frame);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.operands[i + 1], frame);
    bool holds;
    if (node.comparisons[i] == Comparison::kIn || node.comparisons[i] == Comparison::kNotIn) {
      holds = contains(right, left, *this) == (node.comparisons[i] == Comparison::kIn);
    } else {
      holds = compare(node.comparisons[i], left, right, budget_);
    }
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& node, Frame& frame) {
  Arguments arguments;
  arguments.positional = evaluate_all(node.positional, frame);
  if (node.star) {
    const Value star = evaluate(*node.star, frame);
    if (!is_iterable(star)) {
      fail(fmt::format("Value after * must be an iterable, not {}", type_name(star)));
    }
    for (Value& value : to_vector(star, *this)) arguments.positional.push_back(std::move(value));
  }
  for (const Keyword& keyword : node.keywords) {
    arguments.keywords.emplace_back(keyword.name, evaluate(*keyword.value, frame));
  }
  if (!node.star_star) return arguments;
  const Value mapping = evaluate(*node.star_star, frame);
  if (!mapping.is_dict()) fail(fmt::format("argument after ** must be a mapping, not {}", type_name(mapping)));
  for (const auto& [name, value] : mapping.as_dict().entries()) {
    budget_.spend();
    if (!name.is_string()) fail("keywords must be strings");
    for (const Keyword& keyword : node.keywords) {
      if (keyword.name == name.text().view()) {
        fail(fmt::format("got multiple values for keyword argument '{}'", keyword.name));
      }
    }
    arguments.keywords.emplace_back(name.text().bytes(), value);
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& node, Frame& frame) {
  const int line = line_;
  const Value callee = evaluate(*node.operands[0], frame);
  Arguments arguments = evaluate_arguments(node.arguments, frame);
  line_ = node.line;
  Value value = call(callee, std::move(arguments), *this);
  line_ = line;
  return value;
}

Value Interpreter::apply_filter(std::string_view name, const Value& value, Arguments arguments) {
  const FilterBody filter = find_filter(name);
  if (filter == nullptr) fail(fmt::format("No filter named '{}'.", name));
  budget_.spend();
  return filter(*this, value, std::move(arguments));
}

Value Interpreter::apply_test(std::string_view name, const Value& value, Arguments arguments) {
  const TestBody test = find_test(name);
  if (test == nullptr) fail(fmt::format("No test named '{}'.", name));
  budget_.spend();
  return test(*this, value, std::move(arguments));
}

}  // namespace unspool::jinja
