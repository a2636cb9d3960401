// /server_info: how the server was started, under the reference's names.
#pragma once

#include <string>

#include "server/serving_context.h"

namespace unspool {

// `environment` as the process has it: NAME=value, ending in nullptr.
std::string server_info_body(const ServingContext& context, bool as_json, const char* const* environment);

}  // namespace unspool
