// + - * / // % ** and the signs.
#include <fmt/format.h>

#include <cmath>

#include "jinja/arguments.h"
#include "jinja/interpreter.h"
#include "jinja/operations.h"
#include "jinja/string_format.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      break;
  }
  return "** or pow()";
}

[[noreturn]] void fail_overflow() {
  fail_unsupported("integers beyond 128 bits are not supported");
}

Integer power(Integer base, Integer exponent) {
  Integer result = 1;
  while (exponent > 0) {
    if (exponent % 2 == 1) result = multiply_checked(result, base);
    exponent /= 2;
    if (exponent > 0 && base != 0 && base != 1) base = multiply_checked(base, base);
  }
  return result;
}

double divide_integers(Integer left, Integer right) {
  constexpr Integer kExact = Integer{1} << 53;
  if (left > -kExact && left < kExact && right > -kExact && right < kExact) {
    return static_cast<double>(left) / static_cast<double>(right);
  }
  return static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right));
}

Value integer_binary(BinaryOperator op, Integer left, Integer right) {
  Integer out = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::integer(add_checked(left, right));
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(left, right, &out)) fail_overflow();
      return Value::integer(out);
    case BinaryOperator::kMultiply:
      return Value::integer(multiply_checked(left, right));
    case BinaryOperator::kDivide:
      if (right == 0) fail("division by zero");
      return Value::number(divide_integers(left, right));
    case BinaryOperator::kFloorDivide:
    case BinaryOperator::kModulo: {
      if (right == 0) {
        fail(op == BinaryOperator::kModulo ? "integer modulo by zero" : "integer division or modulo by zero");
      }
      if (right == -1) return op == BinaryOperator::kModulo ? Value::integer(0) : negative(Value::integer(left));
      const Integer remainder = left % right;
      const bool rounds_down = remainder != 0 && (remainder < 0) != (right < 0);
      if (op == BinaryOperator::kFloorDivide) return Value::integer(left / right - (rounds_down ? 1 : 0));
      return Value::integer(remainder + (rounds_down ? right : 0));
    }
    case BinaryOperator::kPower:
      break;
  }
  if (right >= 0) return Value::integer(power(left, right));
  if (left == 0) fail("0.0 cannot be raised to a negative power");
  return Value::number(std::pow(static_cast<double>(left), static_cast<double>(right)));
}

double float_modulo(double left, double right) {
  double remainder = std::fmod(left, right);
  if (remainder == 0) return std::copysign(0.0, right);
  if ((remainder < 0) != (right < 0)) remainder += right;
  return remainder;
}

Value float_binary(BinaryOperator op, double left, double right) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::number(left + right);
    case BinaryOperator::kSubtract:
      return Value::number(left - right);
    case BinaryOperator::kMultiply:
      return Value::number(left * right);
    case BinaryOperator::kDivide:
      if (right == 0) fail("float division by zero");
      return Value::number(left / right);
    case BinaryOperator::kFloorDivide: {
      if (right == 0) fail("float floor division by zero");
      // As CPython: from the remainder, so that the two agree.
      const double remainder = float_modulo(left, right);
      const double quotient = (left - remainder) / right;
      if (quotient == 0) return Value::number(std::copysign(0.0, left / right));
      const double floor = std::floor(quotient);
      return Value::number(quotient - floor > 0.5 ? floor + 1 : floor);
    }
    case BinaryOperator::kModulo:
      if (right == 0) fail("float modulo");
      return Value::number(float_modulo(left, right));
    case BinaryOperator::kPower:
      break;
  }
  if (left == 0 && right < 0) fail("0.0 cannot be raised to a negative power");
  if (left < 0 && std::trunc(right) != right) fail_unsupported("complex numbers are not supported");
  const double result = std::pow(left, right);
  if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) {
    fail("(34, 'Numerical result out of range')");
  }
  return Value::number(result);
}

Value repeat(const Value& value, Integer count, Interpreter& interpreter) {
  const auto times = static_cast<int64_t>(require_size(Value::integer(count)));
  Budget& budget = interpreter.budget();
  if (value.is_string()) {
    const Text& text = value.text();
    budget.spend(times / 8);
    budget.spend_bytes(text.size() * static_cast<size_t>(times));
    Text out;
    for (int64_t i = 0; i < times && !text.empty(); ++i) out.append(text);
    return Value::string(std::move(out), value.is_markup());
  }
  std::vector<Value> items;
  budget.spend(times + static_cast<int64_t>(value.items().size()) * times);
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is_tuple() ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value add_strings(const Value& left, const Value& right, Budget& budget) {
  const bool is_markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& value) {
    return is_markup && !value.is_markup() ? escape_html(value.text()) : value.text();
  };
  budget.spend_bytes(left.text().size() + right.text().size());
  Text text = part(left);
  text.append(part(right));
  return Value::string(std::move(text), is_markup);
}

Value add_sequences(const Value& left, const Value& right, Budget& budget) {
  const size_t size = left.items().size() + right.items().size();
  budget.spend(static_cast<int64_t>(size));
  std::vector<Value> items;
  items.reserve(size);
  items.insert(items.end(), left.items().begin(), left.items().end());
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is_tuple() ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

[[noreturn]] void fail_operands(BinaryOperator op, const Value& left, const Value& right) {
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  if (op == BinaryOperator::kAdd && (left.is_string() || left.is_sequence())) {
    const std::string type = left.is_string() ? "str" : type_name(left);
    fail(fmt::format("can only concatenate {} (not \"{}\") to {}", type, type_name(right), type));
  }
  if (op == BinaryOperator::kMultiply) {
    if (left.is_string() || left.is_sequence()) {
      fail(fmt::format("can't multiply sequence by non-int of type '{}'", type_name(right)));
    }
    if (right.is_string() || right.is_sequence()) {
      fail(fmt::format("can't multiply sequence by non-int of type '{}'", type_name(left)));
    }
  }
  fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(left), type_name(right)));
}

}  // namespace

void fail_undefined(const Value& value) {
  fail(value.undefined_message());
}

Integer add_checked(Integer left, Integer right) {
  Integer out = 0;
  if (__builtin_add_overflow(left, right, &out)) fail_overflow();
  return out;
}

Integer multiply_checked(Integer left, Integer right) {
  Integer out = 0;
  if (__builtin_mul_overflow(left, right, &out)) fail_overflow();
  return out;
}

Value binary(BinaryOperator op, const Value& left, const Value& right, Interpreter& interpreter) {
  if (left.as_number() && right.as_number()) {
    const auto a = left.as_integer();
    const auto b = right.as_integer();
    return a && b ? integer_binary(op, *a, *b) : float_binary(op, *left.as_number(), *right.as_number());
  }
  if (op == BinaryOperator::kAdd) {
    if (left.is_string() && right.is_string()) return add_strings(left, right, interpreter.budget());
    if (left.is_sequence() && right.is_sequence() && left.is_tuple() == right.is_tuple()) {
      return add_sequences(left, right, interpreter.budget());
    }
  }
  if (op == BinaryOperator::kMultiply) {
    const auto is_repeatable = [](const Value& value) { return value.is_string() || value.is_sequence(); };
    if (is_repeatable(left) && right.as_integer()) return repeat(left, *right.as_integer(), interpreter);
    if (is_repeatable(right) && left.as_integer()) return repeat(right, *left.as_integer(), interpreter);
  }
  if (op == BinaryOperator::kModulo && left.is_string()) return percent_format(left, right, interpreter);
  fail_operands(op, left, right);
}

Value negative(const Value& value) {
  if (value.is_float()) return Value::number(-value.as_float());
  if (const auto integer = value.as_integer()) {
    Integer out = 0;
    if (__builtin_sub_overflow(Integer{0}, *integer, &out)) fail_overflow();
    return Value::integer(out);
  }
  if (value.is_undefined()) fail_undefined(value);
  fail(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

Value positive(const Value& value) {
  if (value.is_float()) return value;
  if (const auto integer = value.as_integer()) return Value::integer(*integer);
  if (value.is_undefined()) fail_undefined(value);
  fail(fmt::format("bad operand type for unary +: '{}'", type_name(value)));
}

}  // namespace unspool::jinja
