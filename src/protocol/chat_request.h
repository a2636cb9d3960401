// The body of POST /v1/chat/completions, and of the routes that take a conversation like it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/output_parser.h"
#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/field_reader.h"
#include "protocol/openai_request.h"
#include "protocol/serving_config.h"

namespace unspool {

// What a template is given beside the messages. The values are views: the body outlives them.
struct TemplateFields {
  JsonValue tools;      // null: none
  JsonValue documents;  // null: none
  JsonValue kwargs;     // chat_template_kwargs; null: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  std::optional<std::string> chat_template;
  std::optional<std::string> reasoning_effort;
};

struct ToolFields {
  chat::ToolChoice choice = chat::ToolChoice::kNone;
  std::string function;         // of kNamed
  bool choice_is_null = false;  // said so, with tools: parsed as `auto`, but a plain reply shows no calls
  bool parallel = true;
};

struct ChatRequest : OpenAiRequest {
  std::vector<JsonValue> conversations;  // one, but for the batch route; views as well
  bool batch = false;
  TemplateFields chat;
  ToolFields tools;
  bool logprobs = false;  // sampling.logprobs is the number of alternatives then
  const char* max_tokens_name = "max_tokens";
  bool include_reasoning = true;
  bool return_prompt_text = false;
};

// One conversation, or with `batch` a list of them. `body` outlives the request.
ApiResult<ChatRequest> parse_chat_request(const JsonValue& body, const ServingConfig& config, bool batch = false);

// Those of a route that renders a conversation, with the reference's order of errors: tools are read apart.
void read_template_fields(FieldReader& reader, TemplateFields& out);
// Both asked for at once contradict each other.
MaybeError check_generation_prompt(const JsonValue& body);
// Settings of images, sounds and videos, which a text model has no use for and a client no right to.
MaybeError check_media_settings(const JsonValue& body, const ServingConfig& config);

}  // namespace unspool
