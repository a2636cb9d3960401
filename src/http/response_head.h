// Status lines and headers of answers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "http/server.h"

namespace unspool::http {

// How a body's end is told to the client.
enum class BodyFraming { kLength, kChunked, kUntilClose };

// Everything before the body. A line break in a header is dropped, so that no echoed value can add headers of its own.
std::string response_head(int status, std::string_view content_type,
                          const std::vector<std::pair<std::string, std::string>>& headers, BodyFraming framing,
                          size_t body_bytes, bool close);

// {"detail":"..."} with that status; the texts are our own and need no escapes.
HttpResponse detail_response(int status, std::string_view detail);

}  // namespace unspool::http
