#include "protocol/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/field_reader.h"

namespace unspool {
namespace {

constexpr const char* kName = "tool_choice";
constexpr std::string_view kCorrectUsage =
    R"(Correct usage: `{"type": "function", "function": {"name": "my_function"}}`)";

MaybeError refuse(std::string message) {
  return invalid_parameter(std::move(message), kName);
}

// A function that is named must be one of the tools.
MaybeError check_named(const JsonValue& choice, const JsonValue& tools) {
  const JsonValue function = choice["function"];
  if (!function.is_object()) {
    return refuse(fmt::format("Invalid value for `function`: `{}` in `tool_choice`! {}", describe_input(function),
                              kCorrectUsage));
  }
  const auto given = function.find("name");
  if (!given) return refuse(fmt::format("Expected field `name` in `function` in `tool_choice`! {}", kCorrectUsage));
  const auto name = given->as_string();
  if (!name || name->empty()) {
    return refuse(
        fmt::format("Invalid `name` in `function`: `{}` in `tool_choice`! {}", describe_input(*given), kCorrectUsage));
  }
  const auto elements = tools.elements();
  const bool known = std::any_of(elements.begin(), elements.end(),
                                 [&](const JsonValue& tool) { return tool["function"]["name"].as_string() == name; });
  if (known) return std::nullopt;
  return refuse("The tool specified in `tool_choice` does not match any of the specified `tools`");
}

}  // namespace

MaybeError check_tool_usage(const JsonValue& body) {
  const JsonValue tools = body["tools"];
  if (tools.is_array() && tools.size() == 0) {
    return invalid_parameter(
        "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.", "tools");
  }
  const JsonValue choice = body[kName];
  const auto text = choice.as_string();
  if (choice.is_null() || text == "none") return std::nullopt;
  if (tools.is_null()) return refuse("When using `tool_choice`, `tools` must be set.");
  if (text == "auto" || text == "required") return std::nullopt;
  if (choice.is_object()) return check_named(choice, tools);
  return refuse(
      fmt::format("Invalid value for `tool_choice`: {}! Only named tools, \"none\", \"auto\" or \"required\" are "
                  "supported.",
                  describe_input(choice)));
}

ToolFields read_tool_choice(const JsonValue& body) {
  ToolFields out;
  if (body["tools"].is_null()) return out;
  const auto given = body.find(kName);
  const JsonValue choice = given.value_or(JsonValue());
  const auto text = choice.as_string();
  if (choice.is_object()) {
    out.choice = chat::ToolChoice::kNamed;
    out.function = choice["function"]["name"].as_string().value_or("");
  } else if (text == "required") {
    out.choice = chat::ToolChoice::kRequired;
  } else if (text != "none") {
    out.choice = chat::ToolChoice::kAuto;
    out.choice_is_null = given.has_value() && choice.is_null();
  }
  return out;
}

}  // namespace unspool
