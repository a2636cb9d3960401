// The pattern of Split and Replace: {"String": "..."} or {"Regex": "..."}.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "json/json.h"
#include "unicode/pattern.h"

namespace unspool {

// Errors: kInvalidArgument naming `part` and what is wrong.
Result<std::unique_ptr<const unicode::Pattern>> load_pattern(std::string_view part, const JsonValue& json);

}  // namespace unspool
