#include "http/response_head.h"

#include <fmt/format.h>
#include <time.h>

#include <array>

namespace unspool::http {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Request Entity Too Large";
    case 415:
      return "Unsupported Media Type";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Unknown";
  }
}

// RFC 9110's fixed form, free of the locale: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date() {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t now = time(nullptr);
  tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[static_cast<size_t>(utc.tm_wday)], utc.tm_mday,
                     kMonths[static_cast<size_t>(utc.tm_mon)], utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

void append_header(std::string& head, std::string_view name, std::string_view value) {
  const auto append_clean = [&](std::string_view text) {
    for (const char c : text) {
      if (c != '\r' && c != '\n' && c != '\0') head += c;
    }
  };
  append_clean(name);
  head += ": ";
  append_clean(value);
  head += "\r\n";
}

}  // namespace

std::string response_head(int status, std::string_view content_type,
                          const std::vector<std::pair<std::string, std::string>>& headers, BodyFraming framing,
                          size_t body_bytes, bool close) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  append_header(head, "date", http_date());
  append_header(head, "server", "unspool");
  if (framing == BodyFraming::kLength && status != 204)
    append_header(head, "content-length", fmt::format("{}", body_bytes));
  if (!content_type.empty()) append_header(head, "content-type", content_type);
  for (const auto& [name, value] : headers) append_header(head, name, value);
  if (framing == BodyFraming::kChunked) append_header(head, "transfer-encoding", "chunked");
  if (close) append_header(head, "connection", "close");
  head += "\r\n";
  return head;
}

HttpResponse detail_response(int status, std::string_view detail) {
  return {status, "application/json", fmt::format(R"({{"detail":"{}"}})", detail), {}};
}

}  // namespace unspool::http
