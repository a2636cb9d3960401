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

Text json_text(const Value& value, const JsonFormat& format, Interpreter& interpreter);

}  // namespace unspool::jinja
