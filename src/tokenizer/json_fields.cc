#include "tokenizer/json_fields.h"

#include <fmt/format.h>

#include <limits>

#include "unicode/utf8.h"

namespace unspool {

Error tokenizer_error(std::string_view part, std::string_view what) {
  return invalid_argument(fmt::format("{}: {}", part, what));
}

Error expected_error(std::string_view part, std::string_view expected, const JsonValue& value) {
  std::string shown = "an array or object";
  if (!value.is_array() && !value.is_object()) shown = value.dump();
  if (shown.size() > 80) shown = shown.substr(0, 80) + "...";
  return tokenizer_error(part, fmt::format("expected {}, got {}", expected, shown));
}

Result<bool> bool_field(std::string_view part, const JsonValue& object, std::string_view name,
                        std::optional<bool> default_value) {
  const JsonValue value = object[name];
  if (value.is_null() && default_value) return *default_value;
  const std::optional<bool> flag = value.as_bool();
  if (!flag) return expected_error(fmt::format("{}.{}", part, name), "true or false", value);
  return *flag;
}

Result<std::string> string_field(std::string_view part, const JsonValue& object, std::string_view name) {
  const JsonValue value = object[name];
  const std::optional<std::string_view> text = value.as_string();
  if (!text) return expected_error(fmt::format("{}.{}", part, name), "a string", value);
  return std::string(*text);
}

Result<std::string> inserted_field(std::string_view part, const JsonValue& object, std::string_view name) {
  constexpr size_t kMaxBytes = 1024;
  UNSPOOL_ASSIGN(std::string text, string_field(part, object, name));
  if (text.size() <= kMaxBytes) return text;
  return tokenizer_error(fmt::format("{}.{}", part, name),
                         fmt::format("expected at most {} bytes, got {}", kMaxBytes, text.size()));
}

Result<char32_t> character_field(std::string_view part, const JsonValue& object, std::string_view name) {
  const JsonValue value = object[name];
  const std::string_view text = value.as_string().value_or("");
  if (text.empty() || unicode::decode(text, 0).size_bytes != text.size()) {
    return expected_error(fmt::format("{}.{}", part, name), "one character", value);
  }
  return unicode::decode(text, 0).code_point;
}

Result<int32_t> id_field(std::string_view part, const JsonValue& object, std::string_view name) {
  return token_id(fmt::format("{}.{}", part, name), object[name]);
}

Result<int32_t> token_id(std::string_view part, const JsonValue& value) {
  const std::optional<int64_t> id = value.as_int64();
  if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
    return expected_error(part, "a token id from 0 to 2147483647", value);
  }
  return static_cast<int32_t>(*id);
}

Result<std::string> type_field(std::string_view part, const JsonValue& object) {
  if (!object.is_object()) return expected_error(part, "null or an object", object);
  return string_field(part, object, "type");
}

}  // namespace unspool
