#include "protocol/request_body.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "protocol/field_reader.h"
#include "protocol/python_text.h"

namespace unspool {
namespace {

bool is_json(const std::string* content_type) {
  if (content_type == nullptr) return false;
  const std::string_view media = std::string_view(*content_type).substr(0, content_type->find(';'));
  constexpr std::string_view kJson = "application/json";
  return std::equal(media.begin(), media.end(), kJson.begin(), kJson.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; });
}

// Python reads "\ud800" alone and fails when the text is used; there is no UTF-8 for it, so our parser stops there. The
// error's position is that of the escape's 'u'.
bool is_lone_surrogate(std::string_view body, const JsonSyntaxError& error) {
  const size_t at = python::first_characters(body, static_cast<int64_t>(error.position)).size();
  if (at + 5 > body.size() || body[at] != 'u') return false;
  unsigned code = 0;
  const char* last = body.data() + at + 5;
  return std::from_chars(body.data() + at + 1, last, code, 16).ptr == last && code >= 0xD800 && code <= 0xDFFF;
}

}  // namespace

ApiResult<JsonDocument> parse_body(const std::string* content_type, std::string_view body) {
  if (!is_json(content_type)) {
    return framework_error("1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed");
  }
  FieldErrors errors;
  if (body.empty()) {
    errors.add({"missing", "body", "Field required", "None", {}});
    return errors.to_api_error();
  }
  JsonSyntaxError syntax;
  auto document = JsonDocument::parse(body, &syntax);
  if (document.ok()) return std::move(document).value();
  if (is_lone_surrogate(body, syntax)) {
    return bad_request("The body holds a lone surrogate (\\ud800 to \\udfff), which is not a character.");
  }
  errors.add({"json_invalid", fmt::format("body.{}", syntax.position), "JSON decode error", "<dict of 0 items>",
              fmt::format("{{'error': {}}}", python::repr(std::string_view(syntax.message)))});
  return errors.to_api_error();
}

std::string json_decode_error(std::string_view body, const JsonSyntaxError& error) {
  const auto position = static_cast<int64_t>(error.position);
  const std::string_view before = python::first_characters(body, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const int64_t column =
      newline == std::string_view::npos ? position + 1 : python::length(before.substr(newline + 1)) + 1;
  return fmt::format("JSON decode error: {}: line {} column {} (char {})", error.message, line, column, position);
}

MaybeError require_object(const JsonValue& body) {
  if (body.is_object()) return std::nullopt;
  FieldErrors errors;
  errors.add({"model_attributes_type",
              "body",
              "Input should be a valid dictionary or object to extract fields from",
              describe_input(body),
              {}});
  return errors.to_api_error();
}

MaybeError check_model_name(const std::optional<std::string>& model, const ServingConfig& config) {
  if (!model || model->empty() || config.skip_model_name_validation) return std::nullopt;
  const auto& names = config.served_model_names;
  if (std::find(names.begin(), names.end(), *model) != names.end()) return std::nullopt;
  return ApiError{404, "NotFoundError",
                  fmt::format("The model `{}` does not exist. Valid aliases: {}.", *model, fmt::join(names, ", ")),
                  "model"};
}

}  // namespace unspool
