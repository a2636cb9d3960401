#include "chat/tool_format.h"

#include "jinja/characters.h"
#include "unicode/utf8.h"

namespace unspool::chat {

ToolSchemas ToolSchemas::read(const JsonValue& tools) {
  ToolSchemas out;
  for (const JsonValue& tool : tools.elements()) {
    const JsonValue function = tool["function"];
    const auto name = function["name"].as_string();
    if (!name) continue;
    Tool& added = out.tools.emplace_back();
    added.name = *name;
    const JsonValue properties = function["parameters"]["properties"];
    if (!properties.is_object()) continue;
    // Read again from its text: Python's types, which the arguments are compared with, are not json.h's.
    if (auto value = parse_python_json(properties.dump())) added.properties = std::move(*value);
  }
  return out;
}

const PythonJson* ToolSchemas::properties_of(std::string_view name) const {
  for (const Tool& tool : tools) {
    if (tool.name == name) return tool.properties.items.empty() ? nullptr : &tool.properties;
  }
  return nullptr;
}

void append_content(OutputDelta& out, std::string_view text) {
  if (text.empty()) return;
  if (!out.content) out.content.emplace();
  out.content->append(text);
}

void append_name(OutputDelta& out, int index, std::string name) {
  out.tool_calls.push_back({index, std::move(name), std::nullopt});
}

void append_arguments(OutputDelta& out, int index, std::string_view text) {
  if (text.empty()) return;
  if (out.tool_calls.empty() || out.tool_calls.back().index != index || !out.tool_calls.back().arguments) {
    out.tool_calls.push_back({index, std::nullopt, std::string()});
  }
  out.tool_calls.back().arguments->append(text);
}

bool is_ascii_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

std::string_view strip(std::string_view text) {
  while (!text.empty() && is_ascii_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_ascii_space(text.back())) text.remove_suffix(1);
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (text.empty() || (is_ascii(text.front()) && is_ascii(text.back())) || !unicode::is_valid(text)) return text;
  text.remove_prefix(jinja::leading_space(text));
  text.remove_suffix(jinja::trailing_space(text));
  return text;
}

bool is_blank(std::string_view text) {
  return strip(text).empty();
}

}  // namespace unspool::chat
