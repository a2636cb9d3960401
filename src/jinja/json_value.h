// JSON as values of a template.
#pragma once

#include "jinja/text.h"
#include "jinja/value.h"
#include "json/json.h"

namespace unspool::jinja {

// Strings and keys are marked as `origin`. Throws a Fault where an integer has no exact form here.
Value from_json(const JsonValue& json, Origin origin);

}  // namespace unspool::jinja
