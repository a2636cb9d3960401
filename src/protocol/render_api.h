// Bodies of the render routes: what a request asks of the engine, as a request to /inference/v1/generate. What reads
// text and what generates can so be two servers.
#pragma once

#include <string>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/prepared_request.h"
#include "protocol/serving_config.h"

namespace unspool {

// Each returns the body of the reply: one request, or for completions a list of one a prompt.
ApiResult<std::string> render_chat_request(const JsonValue& body, const RequestHeaders& headers,
                                           const ServingConfig& config);
ApiResult<std::string> render_completion_request(const JsonValue& body, const RequestHeaders& headers,
                                                 const ServingConfig& config);

}  // namespace unspool
