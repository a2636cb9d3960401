// From an HTTP body to JSON, with the refusals that come before any field is looked at.
#pragma once

#include <string>
#include <string_view>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/serving_config.h"

namespace unspool {

// `content_type` is null where the client sent none.
ApiResult<JsonDocument> parse_body(const std::string* content_type, std::string_view body);
// "JSON decode error: Expecting value: line 1 column 2 (char 1)": how routes that read their body themselves refuse it.
std::string json_decode_error(std::string_view body, const JsonSyntaxError& error);
// 400 where the body is not an object, as pydantic words it.
MaybeError require_object(const JsonValue& body);

// Unknown: a 404 that lists the names. Null and "" stand for the served model.
MaybeError check_model_name(const std::optional<std::string>& model, const ServingConfig& config);

}  // namespace unspool
