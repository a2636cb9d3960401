// json.dumps, which is what `tojson` is under transformers.
#pragma once

#include <optional>
#include <string>

#include "jinja/text.h"
#include "jinja/value.h"

namespace unspool::jinja {

class Interpreter;

struct JsonFormat {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // one level's
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// The number as json.dumps writes it: as repr does, and NaN, Infinity, -Infinity.
std::string json_number(double value);
// How a character stands in a string of JSON; empty where it stands for itself.
std::string json_escape(char32_t code_point, bool ensure_ascii);

Text json_text(const Value& value, const JsonFormat& format, Interpreter& interpreter);

}  // namespace unspool::jinja
