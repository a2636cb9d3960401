// From a conversation to the text that is tokenized, by a chat template.
#pragma once

#include <string>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/chat_request.h"
#include "protocol/serving_config.h"

namespace unspool {

struct ChatPrompt {
  std::string text;
  std::string role;             // of the message that answers
  std::string last_content;     // of the last message, where it is of that role: what an echo begins with
  bool enable_thinking = true;  // the template's variable
};

ApiResult<ChatPrompt> render_chat(const JsonValue& messages, const TemplateFields& fields, const ServingConfig& config);

// The template's variable: the request's, else the server's, else true.
bool enables_thinking(const TemplateFields& fields, const ChatConfig& config);

// A template of the request's own, which could keep the server busy, or show what it should not.
MaybeError check_request_template(const TemplateFields& fields, const ServingConfig& config);

}  // namespace unspool
