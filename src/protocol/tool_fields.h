// `tools` and `tool_choice` of a chat request.
#pragma once

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/chat_request.h"

namespace unspool {

// The reference's validator, which runs before any field is read.
MaybeError check_tool_usage(const JsonValue& body);
// After that: what is asked for, where `auto` is what tools alone ask for.
ToolFields read_tool_choice(const JsonValue& body);

}  // namespace unspool
