#include "server/replies.h"

#include <fmt/format.h>

namespace unspool {

void send_json(http::Responder& responder, std::string body) {
  send_json(responder, 200, std::move(body));
}

void send_json(http::Responder& responder, int status, std::string body) {
  responder.send({status, kJsonType, std::move(body), {}});
}

void send_error(http::Responder& responder, const ApiError& error) {
  http::HttpResponse response{error.status, kJsonType, error_body(error), {}};
  if (error.status == 503) response.headers.emplace_back("Retry-After", "1");
  responder.send(std::move(response));
}

std::string header_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace unspool
