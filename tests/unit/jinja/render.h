// Renders a template from JSON, for the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "jinja/json_value.h"
#include "jinja/template.h"
#include "json/json.h"

namespace unspool::jinja {

inline TemplateResult<Text> try_render(std::string_view source, std::string_view context = "{}", Limits limits = {}) {
  const auto parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.error();
  const auto document = JsonDocument::parse(context);
  EXPECT_TRUE(document.ok()) << context;
  Variables variables;
  for (const auto& [name, value] : document->root().members()) {
    variables[std::string(name)] = from_json(value, Origin::kInput);
  }
  return (*parsed)->render(variables, [](const std::string& format) { return "now:" + format; }, limits);
}

inline std::string render(std::string_view source, std::string_view context = "{}") {
  const auto result = try_render(source, context);
  return result.ok() ? result->bytes() : "error: " + result.error().describe();
}

inline TemplateError error_of(std::string_view source, std::string_view context = "{}", Limits limits = {}) {
  const auto result = try_render(source, context, limits);
  EXPECT_FALSE(result.ok()) << source;
  return result.ok() ? TemplateError{} : result.error();
}

}  // namespace unspool::jinja
