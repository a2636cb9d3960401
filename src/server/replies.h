// Whole replies, as most handlers send them.
#pragma once

#include <string>
#include <string_view>

#include "http/server.h"
#include "protocol/api_error.h"

namespace unspool {

inline constexpr const char* kJsonType = "application/json";

void send_json(http::Responder& responder, std::string body);
void send_json(http::Responder& responder, int status, std::string body);
// A 503 tells when to ask again.
void send_error(http::Responder& responder, const ApiError& error);

// What a client chose freely, fit for a header's value: anything but visible ASCII and spaces as %XX, and '%' itself.
std::string header_text(std::string_view text);

}  // namespace unspool
