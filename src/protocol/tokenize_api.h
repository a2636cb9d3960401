// Bodies of POST /tokenize, /detokenize and the abort routes.
#pragma once

#include <string>
#include <vector>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/serving_config.h"

namespace unspool {

// Each returns the body of the reply.
ApiResult<std::string> tokenize(const JsonValue& body, const ServingConfig& config);
ApiResult<std::string> detokenize(const JsonValue& body, const ServingConfig& config);

// The external ids that POST /inference/v1/abort_requests names.
ApiResult<std::vector<std::string>> parse_abort_request(std::string_view body);

// GET /v1/models
std::string models_body(const ServingConfig& config);

}  // namespace unspool
