// Python's two ways of formatting: "%s" % x and "{}".format(x).
#pragma once

#include <string>
#include <string_view>

#include "jinja/object.h"
#include "jinja/value.h"

namespace unspool::jinja {

Value percent_format(const Value& format, const Value& values, Interpreter& interpreter);
Text format_text(const Text& format, const Arguments& arguments, Interpreter& interpreter);

// [[fill]align][sign][#][0][width][,][.precision][type]
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';
  char sign = '-';
  bool is_alternate = false;
  size_t width = 0;
  char grouping = '\0';
  int precision = -1;
  char type = '\0';
};

// format(value, spec).
Text format_value(const Value& value, std::string_view spec, Interpreter& interpreter);
// A number's digits without its sign.
std::string format_float(double value, char type, int precision, bool is_alternate);
std::string format_integer(Integer value, char type, bool is_alternate);

}  // namespace unspool::jinja
