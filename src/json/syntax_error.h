// Names what is wrong with a text that is not JSON, as Python's json module would.
#pragma once

#include <string_view>

#include "json/json.h"

namespace unspool {

// Deeper nesting is refused. Python's own limit is its recursion limit, 1000.
inline constexpr size_t kMaxJsonDepth = 1024;

// For a text that JsonDocument::parse has refused. Where Python is laxer than the parser (NaN, Infinity, lone
// surrogates, integers beyond 64 bits) the position and a fitting message are given all the same.
JsonSyntaxError find_json_syntax_error(std::string_view text);

}  // namespace unspool
