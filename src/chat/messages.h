// The messages of a chat request, as the reference prepares them for a template.
#pragma once

#include <vector>

#include "base/result.h"
#include "chat/chat_template.h"
#include "jinja/value.h"
#include "json/json.h"

namespace unspool::chat {

// Contents become texts (kString: the parts joined with newlines) or lists of parts (kOpenAi), arguments of tool calls
// become mappings, and only the members that the reference passes on are there. Where the template does not know the
// role `developer`, such messages become system messages, and all system messages the first one.
//
// Every string in it is marked as input. Errors: kInvalidArgument with the reference's words, for what the checks of
// the request's fields let through: parts of other kinds than text, and tool calls that are no calls of functions.
Result<std::vector<jinja::Value>> read_messages(const JsonValue& messages, const ChatTemplate& chat_template);

// Tools or documents: a JSON value as it is.
Result<jinja::Value> read_value(const JsonValue& json);

}  // namespace unspool::chat
