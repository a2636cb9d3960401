#include "chat/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "chat/content_parts.h"
#include "jinja/json_value.h"

namespace unspool::chat {
namespace {

using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

Value input(std::string_view text) {
  return Value::string(Text(std::string(text), Origin::kInput));
}
Value name(std::string_view text) {
  return Value::string(text);
}

// A member's value where it is a string.
std::optional<Value> string_member(const JsonValue& json, std::string_view key) {
  const auto text = json[key].as_string();
  return text ? std::optional<Value>(input(*text)) : std::nullopt;
}

// What a template takes for arguments: a mapping. An earlier turn's arguments that are none would fail every later turn
// of the conversation too, so that the reference takes an empty mapping for them, and so do we.
Value read_arguments(const JsonValue& arguments) {
  if (arguments.is_object()) return jinja::from_json(arguments, Origin::kInput);
  const auto text = arguments.as_string();
  if (!text || text->empty()) return Value::dict({});
  const auto document = JsonDocument::parse(*text);
  if (!document.ok() || !document->root().is_object()) return Value::dict({});
  return jinja::from_json(document->root(), Origin::kInput);
}

Result<Value> read_tool_call(const JsonValue& call) {
  if (!call.is_object()) return invalid_argument("assistant tool_calls entries must be objects.", "tool_calls");
  const auto type = call.find("type");
  const JsonValue function = call["function"];
  if ((type && type->as_string() != "function") || !function.is_object()) {
    return invalid_argument("chat completions only support assistant tool_calls of type 'function'.", "tool_calls");
  }
  Dict function_out = jinja::from_json(function, Origin::kInput).as_dict();
  function_out.set(name("arguments"), read_arguments(function["arguments"]));
  Dict out = jinja::from_json(call, Origin::kInput).as_dict();
  out.set(name("function"), Value::dict(std::move(function_out)));
  return Value::dict(std::move(out));
}

Result<Value> read_tool_calls(const JsonValue& calls) {
  std::vector<Value> out;
  for (const JsonValue& call : calls.elements()) {
    UNSPOOL_ASSIGN(Value value, read_tool_call(call));
    out.push_back(std::move(value));
  }
  return Value::list(std::move(out));
}

// A tool's result as a text, which is what most templates expect there; parts that are no texts stay parts.
Value tool_content(Value content) {
  if (!content.is_list()) return content;
  Text text;
  for (const Value& part : content.items()) {
    const Value* const part_text = part.as_dict().find("text");
    if (part_text == nullptr) return content;
    if (&part != &content.items().front()) text.append("\n", Origin::kTemplate);
    text.append(part_text->text());
  }
  return Value::string(std::move(text));
}

Result<Value> read_message(const JsonValue& message, ContentFormat format) {
  const std::string role(message["role"].as_string().value_or(""));
  UNSPOOL_ASSIGN(Value content, read_content(message["content"], format, role == "system"));
  Dict out;
  out.set(name("role"), input(role));
  out.set(name("content"), role == "tool" ? tool_content(std::move(content)) : std::move(content));
  if (role == "assistant") {
    const JsonValue calls = message["tool_calls"];
    // An empty list would put templates on the path of tool calls.
    if (calls.is_array() && calls.size() > 0) {
      UNSPOOL_ASSIGN(Value value, read_tool_calls(calls));
      out.set(name("tool_calls"), std::move(value));
    }
    const JsonValue reasoning = message["reasoning"].is_null() ? message["reasoning_content"] : message["reasoning"];
    if (!reasoning.is_null()) {
      const Value value = jinja::from_json(reasoning, Origin::kInput);
      out.set(name("reasoning"), value);
      out.set(name("reasoning_content"), value);
    }
  } else if (role == "tool") {
    if (const auto id = message.find("tool_call_id")) {
      out.set(name("tool_call_id"), jinja::from_json(*id, Origin::kInput));
    }
  }
  for (const std::string_view key : {"name", "task"}) {
    if (const auto value = string_member(message, key)) out.set(name(key), *value);
  }
  if (role == "developer") out.set(name("tools"), jinja::from_json(message["tools"], Origin::kInput));
  return Value::dict(std::move(out));
}

bool has_role(const Value& message, std::string_view role) {
  return message.as_dict().find("role")->text().view() == role;
}

// The text of a system message's content: of its parts, joined.
Text plain_text(const Value& content) {
  if (content.is_string()) return content.text();
  Text text;
  for (const Value& part : content.items()) {
    const Value* const part_text = part.is_dict() ? part.as_dict().find("text") : nullptr;
    if (part_text == nullptr || !part_text->is_string()) continue;
    if (!text.empty()) text.append("\n", Origin::kTemplate);
    text.append(part_text->text());
  }
  return text;
}

std::vector<Value> developers_as_system(std::vector<Value> messages) {
  const bool has_developer = std::any_of(messages.begin(), messages.end(),
                                         [](const Value& message) { return has_role(message, "developer"); });
  if (!has_developer) return messages;
  for (Value& message : messages) {
    if (!has_role(message, "developer")) continue;
    Dict out;
    for (const auto& [key, value] : message.as_dict().entries()) {
      if (key.text().view() == "tools") continue;
      out.set(key, key.text().view() == "role" ? name("system") : value);
    }
    message = Value::dict(std::move(out));
  }
  // Several, or one that is not the first, become one at the front: some templates refuse any other.
  const auto is_system = [](const Value& message) { return has_role(message, "system"); };
  const auto count = std::count_if(messages.begin(), messages.end(), is_system);
  if (count == 1 && is_system(messages.front())) return messages;
  Text merged;
  for (const Value& message : messages) {
    if (!is_system(message)) continue;
    const Text text = plain_text(*message.as_dict().find("content"));
    if (text.empty()) continue;
    if (!merged.empty()) merged.append("\n\n", Origin::kTemplate);
    merged.append(text);
  }
  std::erase_if(messages, is_system);
  Dict system;
  system.set(name("role"), name("system"));
  system.set(name("content"), Value::string(std::move(merged)));
  messages.insert(messages.begin(), Value::dict(std::move(system)));
  return messages;
}

}  // namespace

Result<Value> read_value(const JsonValue& json) {
  try {
    return jinja::from_json(json, Origin::kInput);
  } catch (const jinja::Fault& fault) {
    return invalid_argument(fault.error.message);
  }
}

Result<std::vector<Value>> read_messages(const JsonValue& messages, const ChatTemplate& chat_template) {
  try {
    std::vector<Value> out;
    for (const JsonValue& message : messages.elements()) {
      UNSPOOL_ASSIGN(Value value, read_message(message, chat_template.content_format()));
      out.push_back(std::move(value));
    }
    return chat_template.supports_developer() ? std::move(out) : developers_as_system(std::move(out));
  } catch (const jinja::Fault& fault) {
    return invalid_argument(fault.error.message);
  }
}

}  // namespace unspool::chat
