#include "protocol/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "protocol/python_text.h"

namespace unspool {
namespace {

void add(FieldErrors& errors, const char* type, std::string loc, std::string msg, const JsonValue& input,
         std::string ctx = {}) {
  errors.add({type, std::move(loc), std::move(msg), describe_input(input), std::move(ctx)});
}

// The kinds of message that the reference knows: pydantic tries each, and where none fits says what every one lacks.
struct Kind {
  const char* name;
  const char* role;  // null: any
  bool content_required = true;
  bool content_nullable = false;
  const char* required_before = nullptr;  // other members that must be there, by where they are declared
  const char* required_after = nullptr;
};
constexpr Kind kKinds[] = {
    {"ChatCompletionDeveloperMessageParam", "developer"},
    {"ChatCompletionSystemMessageParam", "system"},
    {"ChatCompletionUserMessageParam", "user"},
    {"ChatCompletionAssistantMessageParam", "assistant", false, true},
    {"ChatCompletionToolMessageParam", "tool", true, false, nullptr, "tool_call_id"},
    {"ChatCompletionFunctionMessageParam", "function", true, true, "name"},
    {"CustomChatCompletionMessageParam", nullptr, false},
};

// A part is a text or an object; what is in the object, and whether it is known, chat/content_parts.h says.
bool is_part(const JsonValue& part) {
  return part.is_string() || part.is_object();
}

bool fits_content(const JsonValue& content, const Kind& kind) {
  if (content.is_string()) return true;
  if (content.is_null()) return kind.content_nullable;
  if (!content.is_array()) return false;
  const auto parts = content.elements();
  return std::all_of(parts.begin(), parts.end(), is_part);
}

bool fits_role(const JsonValue& role, const Kind& kind) {
  const auto text = role.as_string();
  return text && (kind.role == nullptr || *text == kind.role);
}

bool fits_tool_calls(const JsonValue& message) {
  const JsonValue calls = message["tool_calls"];
  return calls.is_null() || calls.is_array();
}

bool fits(const JsonValue& message, const Kind& kind) {
  const auto content = message.find("content");
  const auto has = [&](const char* name) { return name == nullptr || message[name].is_string(); };
  return message.is_object() && fits_role(message["role"], kind) && fits_tool_calls(message) &&
         (content ? fits_content(*content, kind) : !kind.content_required) && has(kind.required_before) &&
         has(kind.required_after);
}

void add_content_errors(const JsonValue& content, const Kind& kind, const std::string& loc, FieldErrors& errors) {
  if (fits_content(content, kind)) return;
  add(errors, "string_type", loc, "Input should be a valid string", content);
  if (!content.is_array()) {
    const bool any_role = kind.role == nullptr;
    add(errors, any_role ? "list_type" : "iterable_type", loc,
        any_role ? "Input should be a valid list" : "Input should be iterable", content);
    return;
  }
  size_t index = 0;
  for (const JsonValue& part : content.elements()) {
    if (!is_part(part)) {
      add(errors, "dict_type", fmt::format("{}.{}", loc, index), "Input should be a valid dictionary", part);
    }
    ++index;
  }
}

void add_role_errors(const JsonValue& message, const Kind& kind, const std::string& loc, FieldErrors& errors) {
  const auto role = message.find("role");
  if (!role) {
    add(errors, "missing", loc, "Field required", message);
  } else if (kind.role == nullptr) {
    if (!role->is_string()) add(errors, "string_type", loc, "Input should be a valid string", *role);
  } else if (!fits_role(*role, kind)) {
    const std::string expected = fmt::format("'{}'", kind.role);
    add(errors, "literal_error", loc, "Input should be " + expected, *role,
        fmt::format("{{'expected': {}}}", python::repr(std::string_view(expected))));
  }
}

void add_errors(const JsonValue& message, const Kind& kind, const std::string& loc, FieldErrors& errors) {
  if (!message.is_object()) return add(errors, "dict_type", loc, "Input should be a valid dictionary", message);
  const auto require = [&](const char* name) {
    if (name == nullptr) return;
    const auto value = message.find(name);
    if (!value) {
      add(errors, "missing", fmt::format("{}.{}", loc, name), "Field required", message);
    } else if (!value->is_string()) {
      add(errors, "string_type", fmt::format("{}.{}", loc, name), "Input should be a valid string", *value);
    }
  };
  if (const auto content = message.find("content")) {
    add_content_errors(*content, kind, loc + ".content", errors);
  } else if (kind.content_required) {
    add(errors, "missing", loc + ".content", "Field required", message);
  }
  require(kind.required_before);
  add_role_errors(message, kind, loc + ".role", errors);
  require(kind.required_after);
  if (!fits_tool_calls(message) && (kind.role == nullptr || std::string_view(kind.role) == "assistant")) {
    add(errors, "iterable_type", loc + ".tool_calls", "Input should be iterable", message["tool_calls"]);
  }
}

void check_message(const JsonValue& message, const std::string& loc, FieldErrors& errors) {
  if (std::any_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return fits(message, kind); })) return;
  for (const Kind& kind : kKinds) add_errors(message, kind, fmt::format("{}.{}", loc, kind.name), errors);
  // The last kind is that of another format, which this server does not take.
  for (const char* name : {"author", "content"}) {
    if (!message.is_object()) break;
    add(errors, "missing", fmt::format("{}.Message.{}", loc, name), "Field required", message);
  }
}

void check_function(const JsonValue& function, const std::string& loc, FieldErrors& errors) {
  if (!function.is_object()) {
    return add(errors, "model_attributes_type", loc,
               "Input should be a valid dictionary or object to extract fields from", function);
  }
  FieldReader reader(function, loc, errors);
  std::string name;
  std::optional<std::string> description;
  std::optional<JsonValue> parameters;
  if (reader.find("name")) {
    reader.read("name", name);
  } else {
    reader.missing("name");
  }
  reader.read("description", description);
  reader.read_object("parameters", parameters);
}

void check_tool(const JsonValue& tool, const std::string& loc, FieldErrors& errors) {
  if (!tool.is_object()) {
    return add(errors, "model_attributes_type", loc,
               "Input should be a valid dictionary or object to extract fields from", tool);
  }
  if (const auto type = tool.find("type"); type && type->as_string() != "function") {
    add(errors, "literal_error", loc + ".type", "Input should be 'function'", *type, R"({'expected': "'function'"})");
  }
  if (const auto function = tool.find("function")) {
    check_function(*function, loc + ".function", errors);
  } else {
    add(errors, "missing", loc + ".function", "Field required", tool);
  }
}

}  // namespace

void check_messages(const JsonValue& messages, const std::string& loc, FieldErrors& errors) {
  if (!messages.is_array()) return add(errors, "list_type", loc, "Input should be a valid list", messages);
  size_t index = 0;
  for (const JsonValue& message : messages.elements()) {
    check_message(message, fmt::format("{}.{}", loc, index++), errors);
  }
}

void check_tools(const JsonValue& tools, const std::string& loc, FieldErrors& errors) {
  if (tools.is_null()) return;
  if (!tools.is_array()) return add(errors, "list_type", loc, "Input should be a valid list", tools);
  size_t index = 0;
  for (const JsonValue& tool : tools.elements()) check_tool(tool, fmt::format("{}.{}", loc, index++), errors);
}

}  // namespace unspool
