// The tools of a request, as a template is given them.
#pragma once

#include "base/result.h"
#include "jinja/value.h"
#include "json/json.h"

namespace unspool::chat {

// Each as the reference's models write it out: type and function first, a function's name, description and parameters
// always there, null where the request has none; `strict` and `defer_loading` only where they say something. Every
// string in it is marked as input.
Result<jinja::Value> read_tools(const JsonValue& tools);

}  // namespace unspool::chat
