// A stream that is derendered: each chunk of /inference/v1/generate becomes the chunk that the chat or completions
// route would have sent. Nothing is kept between two chunks: what one needs of those before it the client brings along.
#pragma once

#include <string>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/serving_config.h"

namespace unspool {

// {"stream": true, "generate_chunk", "stream_state"?, "chat_request"?, "prompt_tokens"?, "prompt_token_ids"?, "model"?}
// gives {"chunk", "stream_state"}. A client has one state a choice, which it sends with that choice's next chunk.
ApiResult<std::string> derender_chat_chunk(const JsonValue& body, const ServingConfig& config);
// The same with "completion_request".
ApiResult<std::string> derender_completion_chunk(const JsonValue& body, const ServingConfig& config);

}  // namespace unspool
