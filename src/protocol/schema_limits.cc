#include "protocol/schema_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace unspool {
namespace {

constexpr int kMaxNesting = 64;
constexpr int kTagNesting = 16;

bool nests_deeper(const JsonValue& value, int limit) {
  if (!value.is_object() && !value.is_array()) return false;
  if (limit == 0) return true;
  for (const JsonValue& element : value.elements()) {
    if (nests_deeper(element, limit - 1)) return true;
  }
  for (const auto& [name, member] : value.members()) {
    if (nests_deeper(member, limit - 1)) return true;
  }
  return false;
}

MaybeError check_nesting(const JsonValue& value, int limit) {
  if (!nests_deeper(value, limit)) return std::nullopt;
  return bad_request(
      fmt::format("The JSON schema is nested too deeply: objects and arrays may nest at most {} levels", kMaxNesting));
}

bool has_type(const JsonValue& schema, std::string_view name) {
  const JsonValue type = schema["type"];
  if (type.as_string() == name) return true;
  const auto names = type.elements();
  return std::any_of(names.begin(), names.end(), [&](const JsonValue& v) { return v.as_string() == name; });
}

bool has_any(const JsonValue& schema, std::initializer_list<const char*> keywords) {
  return std::any_of(keywords.begin(), keywords.end(), [&](const char* name) { return schema.find(name).has_value(); });
}

bool has_form_and_length(const JsonValue& schema) {
  return has_any(schema, {"pattern", "format"}) && has_any(schema, {"minLength", "maxLength"});
}

bool is_known_format(const JsonValue& format) {
  static constexpr std::array<std::string_view, 14> kKnown = {
      "email", "date", "time",     "date-time",     "duration",     "ipv4",         "ipv6",
      "uuid",  "uri",  "hostname", "uri-reference", "uri-template", "json-pointer", "relative-json-pointer"};
  const auto name = format.as_string();
  return name && std::find(kKnown.begin(), kKnown.end(), *name) != kKnown.end();
}

// Of objects, keywords that are understood alone but not beside one another.
bool mixes_name_keywords(const JsonValue& schema) {
  if (const auto names = schema.find("propertyNames")) {
    if (has_form_and_length(*names) || has_any(schema, {"patternProperties", "properties"})) return true;
    const auto unevaluated = schema.find("unevaluatedProperties");
    if (unevaluated && unevaluated->as_bool() != true) return true;
  }
  const JsonValue patterns = schema["patternProperties"];
  return patterns.is_object() && (schema.find("properties") || patterns.size() > 1);
}

bool uses_unsupported(const JsonValue& schema) {
  if ((has_type(schema, "integer") || has_type(schema, "number")) && has_any(schema, {"multipleOf"})) return true;
  if (has_type(schema, "array") && has_any(schema, {"uniqueItems", "contains", "minContains", "maxContains"})) {
    return true;
  }
  if (has_type(schema, "string")) {
    const auto format = schema.find("format");
    if ((format && !is_known_format(*format)) || has_form_and_length(schema)) return true;
  }
  if (has_type(schema, "object") && mixes_name_keywords(schema)) return true;
  return schema["allOf"].size() >= 2;
}

}  // namespace

MaybeError check_schema_nesting(const JsonValue& schema) {
  return check_nesting(schema, kMaxNesting);
}

MaybeError check_tag_nesting(const JsonValue& tag) {
  return check_nesting(tag, kMaxNesting + kTagNesting);
}

bool has_unsupported_features(const JsonValue& schema) {
  if (!schema.is_object()) return false;
  if (uses_unsupported(schema)) return true;
  for (const auto& [name, member] : schema.members()) {
    if (has_unsupported_features(member)) return true;
    for (const JsonValue& element : member.elements()) {
      if (has_unsupported_features(element)) return true;
    }
  }
  return false;
}

}  // namespace unspool
