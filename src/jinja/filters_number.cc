// Filters of numbers.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "jinja/characters.h"
#include "jinja/filter_support.h"
#include "jinja/python_number.h"
#include "jinja/string_format.h"
#include "jinja/template_error.h"

namespace unspool::jinja {
namespace {

Value absolute(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound("abs", {}, 0, std::move(arguments));
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_float()) return Value::number(std::fabs(value.as_float()));
  const auto integer = value.as_integer();
  if (!integer) fail(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
  return *integer < 0 ? negative(Value::integer(*integer)) : Value::integer(*integer);
}

// float(value); nullopt where Python raises TypeError or ValueError.
std::optional<double> to_float(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_string()) return parse_float(value.text().view());
  return value.as_number();
}

// A finite number without its fraction.
Value whole(double number) {
  if (std::fabs(number) >= 1.7e38) fail_unsupported("integers beyond 128 bits are not supported");
  return Value::integer(static_cast<Integer>(number));
}

Value to_integer(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("int", {"default", "base"}, 0, std::move(arguments));
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_string()) {
    interpreter.budget().spend_bytes(value.text().size());
    // A base that Python refuses is no error: the text is then tried as a float.
    const Integer base = bound.has(1) ? bound[1].as_integer().value_or(1) : 10;
    if (base == 0 || (base >= 2 && base <= 36)) {
      if (const auto integer = parse_python_integer(value.text().view(), static_cast<int>(base))) {
        return Value::integer(*integer);
      }
    }
  } else if (const auto integer = value.as_integer()) {
    return Value::integer(*integer);
  } else if (value.is_float() && std::isinf(value.as_float())) {
    fail("cannot convert float infinity to integer");
  }
  const auto number = to_float(value);
  if (!number || !std::isfinite(*number)) return bound.get(0, Value::integer(0));
  return whole(*number);
}

Value to_number(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("float", {"default"}, 0, std::move(arguments));
  interpreter.budget().spend_bytes(value.is_string() ? value.text().size() : 0);
  const auto number = to_float(value);
  return number ? Value::number(*number) : bound.get(0, Value::number(0));
}

// round(): to the nearest, halves to even, by the exact decimal value as CPython.
Value round_common(const Value& value, Integer precision) {
  if (const auto integer = value.as_integer()) {
    if (precision >= 0) return Value::integer(*integer);
    if (precision < -38) return Value::integer(0);
    Integer unit = 1;
    for (Integer i = 0; i > precision; --i) unit *= 10;
    Integer remainder = *integer % unit;
    if (remainder < 0) remainder += unit;
    const Integer down = *integer - remainder;
    const bool is_odd = (down / unit) % 2 != 0;
    const bool goes_up = remainder * 2 > unit || (remainder * 2 == unit && is_odd);
    return Value::integer(goes_up ? add_checked(down, unit) : down);
  }
  const double number = value.as_float();
  if (!std::isfinite(number) || precision > 323) return value;
  if (precision < -308) return Value::number(std::copysign(0.0, number));
  if (precision >= 0)
    return Value::number(std::strtod(
        format_float(number, 'f', static_cast<int>(std::min<Integer>(precision, 100)), false).c_str(), nullptr));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value::number(std::nearbyint(number / unit) * unit);
}

// round() without a precision: an integer.
Value round_whole(const Value& value) {
  if (const auto integer = value.as_integer()) return Value::integer(*integer);
  if (!std::isfinite(value.as_float())) fail("cannot convert float infinity or NaN to integer");
  return whole(std::nearbyint(value.as_float()));
}

Value round(Interpreter& interpreter, const Value& value, Arguments arguments) {
  const Bound bound("round", {"precision", "method"}, 0, std::move(arguments));
  const std::string method = bound.has(1) ? to_text(bound[1], interpreter).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    fail("method must be common, ceil or floor");
  }
  if (value.is_undefined()) fail_undefined(value);
  if (!value.as_number()) fail(fmt::format("type {} doesn't define __round__ method", type_name(value)));
  if (method == "common" && bound.has(0) && bound[0].is_none()) return round_whole(value);
  const Integer precision = bound.integer(0, 0);
  if (method == "common") return round_common(value, precision);
  const Value unit = binary(BinaryOperator::kPower, Value::integer(10), Value::integer(precision), interpreter);
  const double scaled = *binary(BinaryOperator::kMultiply, value, unit, interpreter).as_number();
  if (!std::isfinite(scaled)) fail("cannot convert float infinity to integer");
  const double rounded = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::number(rounded / *unit.as_number());
}

Value file_size(Interpreter&, const Value& value, Arguments arguments) {
  const Bound bound("filesizeformat", {"binary"}, 0, std::move(arguments));
  const auto bytes = to_float(value);
  if (!bytes) fail("could not convert to float");
  const bool is_binary = bound.flag(0);
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) return Value::string("1 Byte");
  if (*bytes < base) return Value::string(fmt::format("{:.0f} Bytes", std::trunc(*bytes)));
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (*bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const std::string prefix =
        is_binary ? std::string(1, i == 0 ? 'K' : kPrefixes[i]) + "i" : std::string(1, kPrefixes[i]);
    return Value::string(format_float(base * *bytes / unit, 'f', 1, false) + " " + prefix + "B");
  }
  return Value::none();
}

constexpr NamedFilter kFilters[] = {
    {"abs", absolute}, {"int", to_integer}, {"float", to_number}, {"round", round}, {"filesizeformat", file_size},
};

}  // namespace

FilterBody find_number_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace unspool::jinja
