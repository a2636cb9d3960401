#include "tokenizer/text_pattern.h"

#include <fmt/format.h>

#include <string>

#include "tokenizer/json_fields.h"

namespace unspool {

Result<std::unique_ptr<const unicode::Pattern>> load_pattern(std::string_view part, const JsonValue& json) {
  if (const auto regex = json["Regex"].as_string()) {
    auto compiled = unicode::Pattern::regex(std::string(*regex));
    if (!compiled.ok()) return tokenizer_error(fmt::format("{}.pattern", part), compiled.error().message);
    return compiled;
  }
  if (const auto literal = json["String"].as_string()) return unicode::Pattern::literal(std::string(*literal));
  return expected_error(fmt::format("{}.pattern", part), "an object with Regex or String", json);
}

}  // namespace unspool
