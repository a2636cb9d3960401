// Bodies of the derender routes, the inverse of render: what /inference/v1/generate answered becomes the reply that
// the chat or completions route would have given.
#pragma once

#include <string>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/serving_config.h"

namespace unspool {

// {"generate_response", "chat_request"?, "prompt_tokens"?, "prompt_token_ids"?, "model"?}
ApiResult<std::string> derender_chat(const JsonValue& body, const ServingConfig& config);
// {"generate_responses": one a prompt, "completion_request"?, "prompt_tokens"?: [..], "prompt_token_ids"?: [..], ..}
ApiResult<std::string> derender_completion(const JsonValue& body, const ServingConfig& config);

}  // namespace unspool
