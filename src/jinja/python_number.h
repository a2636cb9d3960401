// int(text) and float(text).
#pragma once

#include <optional>
#include <string_view>

#include "jinja/value.h"

namespace unspool::jinja {

// nullopt where Python raises ValueError. Throws where the number is beyond 128 bits. Base 0 reads a prefix.
std::optional<Integer> parse_python_integer(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace unspool::jinja
