// The shape of a chat request's messages and tools, as the reference's pydantic models have it: what is no message is
// refused here, what is one and makes no sense to a template by the template.
#pragma once

#include <string>

#include "json/json.h"
#include "protocol/field_reader.h"

namespace unspool {

// A conversation: a list of messages.
void check_messages(const JsonValue& messages, const std::string& loc, FieldErrors& errors);

// A list of functions, or null.
void check_tools(const JsonValue& tools, const std::string& loc, FieldErrors& errors);

}  // namespace unspool
