#include "protocol/api_error.h"

#include <fmt/format.h>

#include <array>

#include "base/utf8.h"
#include "json/json_writer.h"
#include "protocol/python_text.h"

namespace unspool {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0;
}
bool is_path_char(char c, bool dots) {
  return is_word(c) || c == '-' || (dots && c == '.');
}
bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// "/part" repeated at the start of `text`: the bytes of all of them, and how many.
struct Segments {
  size_t bytes = 0;
  int count = 0;
};
Segments segments(std::string_view text, bool dots) {
  Segments found;
  while (found.bytes + 1 < text.size() && text[found.bytes] == '/' && is_path_char(text[found.bytes + 1], dots)) {
    ++found.bytes;
    while (found.bytes < text.size() && is_path_char(text[found.bytes], dots)) ++found.bytes;
    ++found.count;
  }
  return found;
}

// How many bytes at the start of `text`, which begins with '/', are a path that nobody outside needs to see; 0 for
// none.
size_t path_length(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kRoots = {"home", "usr", "opt", "var", "tmp",
                                                             "root", "lib", "mnt", "srv"};
  for (const std::string_view root : kRoots) {
    if (!text.substr(1).starts_with(root)) continue;
    const Segments below = segments(text.substr(1 + root.size()), true);
    if (below.count > 0) return 1 + root.size() + below.bytes;
  }
  // Any /a/b.ext: two parts at least, the last one with an extension.
  const Segments parts = segments(text, false);
  size_t end = parts.bytes;
  if (parts.count < 2 || end + 1 >= text.size() || text[end] != '.' || !is_word(text[end + 1])) return 0;
  for (++end; end < text.size() && is_word(text[end]);) ++end;
  return end;
}

// " at 0x7f..>" before the '>'.
size_t address_length(std::string_view text) {
  constexpr std::string_view kAt = " at 0x";
  if (!text.starts_with(kAt)) return 0;
  size_t end = kAt.size();
  while (end < text.size() && is_hex(text[end])) ++end;
  return end > kAt.size() && end < text.size() && text[end] == '>' ? end : 0;
}

}  // namespace

ApiError bad_request(std::string message) {
  return {400, "BadRequestError", std::move(message), {}};
}

ApiError bad_request_for(std::string message, std::string param) {
  return {400, "BadRequestError", std::move(message), std::move(param)};
}

ApiError invalid_parameter(std::string message, std::string param) {
  message += fmt::format(" (parameter={})", param);
  return bad_request_for(std::move(message), std::move(param));
}

ApiError invalid_parameter(std::string message, std::string param, std::string_view value) {
  message += fmt::format(" (parameter={}, value={})", param, value);
  return bad_request_for(std::move(message), std::move(param));
}

ApiError framework_error(std::string message, std::string param) {
  return {400, "Bad Request", std::move(message), std::move(param)};
}

ApiError internal_server_error() {
  return {500, "InternalServerError", "Internal server error", {}};
}

ApiError from_engine_error(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
      return bad_request_for(error.message, error.param);
    case ErrorKind::kNotFound:
      return {404, "NotFoundError", error.message, error.param};
    case ErrorKind::kConflict:
      return {409, "Conflict", error.message, error.param};
    case ErrorKind::kUnavailable:
      return {503, "Service Unavailable", error.message, {}};
    case ErrorKind::kNotImplemented:
      return {501, "NotImplementedError", error.message, {}};
    case ErrorKind::kTimeout:
      return {504, "GatewayTimeoutError", error.message, {}};
    case ErrorKind::kInternal:
      break;
  }
  return {500, "InternalServerError", error.message.empty() ? "Internal server error" : error.message, {}};
}

std::string sanitize_message(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size();) {
    const std::string_view rest = message.substr(i);
    if (const size_t skip = rest[0] == ' ' ? address_length(rest) : 0) {
      i += skip;
    } else if (const size_t path = rest[0] == '/' ? path_length(rest) : 0) {
      out += "<path>";
      i += path;
    } else {
      out += rest[0];
      ++i;
    }
  }
  const size_t first = out.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return out.substr(first, out.find_last_not_of(" \t\r\n") - first + 1);
}

std::string error_body(const ApiError& error) {
  JsonWriter w;
  w.begin_object();
  w.key("error");
  w.begin_object();
  w.key("message");
  w.string(sanitize_message(error.message));
  w.key("type");
  w.string(error.type);
  w.key("param");
  if (error.param.empty()) {
    w.null();
  } else {
    w.string(error.param);
  }
  w.key("code");
  w.integer(error.status);
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

namespace {

// A JSON string in ASCII alone.
std::string ascii_string(std::string_view text) {
  const std::string utf8 = python::decode_utf8(text);
  std::string out = "\"";
  for (size_t i = 0; i < utf8.size();) {
    const size_t size = utf8_sequence_length(std::string_view(utf8).substr(i));
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (size == 1) {
      if (byte == '"' || byte == '\\') {
        out += '\\';
        out += utf8[i];
      } else if (byte == '\n') {
        out += "\\n";
      } else if (byte < 0x20) {
        out += fmt::format("\\u{:04x}", byte);
      } else {
        out += utf8[i];
      }
    } else {
      uint32_t code = byte & (0xFFu >> (size + 1));
      for (size_t k = 1; k < size; ++k) code = code << 6 | (static_cast<unsigned char>(utf8[i + k]) & 0x3F);
      if (code >= 0x10000) {
        out +=
            fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
      } else {
        out += fmt::format("\\u{:04x}", code);
      }
    }
    i += size;
  }
  out += '"';
  return out;
}

}  // namespace

std::string stream_error_body(const ApiError& error) {
  return fmt::format(R"({{"error": {{"message": {}, "type": {}, "param": {}, "code": {}}}}})",
                     ascii_string(sanitize_message(error.message)), ascii_string(error.type),
                     error.param.empty() ? "null" : ascii_string(error.param), error.status);
}

}  // namespace unspool
