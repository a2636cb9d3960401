// The content of one message.
#pragma once

#include "base/result.h"
#include "chat/chat_template.h"
#include "jinja/value.h"
#include "json/json.h"

namespace unspool::chat {

// A string, null (no parts) or a list of parts; as a text or as a list of parts, whichever the template takes.
// `is_system`: without the attribution line that one client puts there, which would defeat the prefix cache.
Result<jinja::Value> read_content(const JsonValue& content, ContentFormat format, bool is_system);

}  // namespace unspool::chat
