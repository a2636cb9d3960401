#include "chat/tool_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"

namespace unspool::chat {
namespace {

bool is_forced(const ToolGrammarRequest& request) {
  return request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
}

// The tools that may be called: all, or the named one.
std::vector<JsonValue> functions_of(const ToolGrammarRequest& request) {
  std::vector<JsonValue> functions;
  for (const JsonValue& tool : request.tools.elements()) {
    const JsonValue function = tool["function"];
    const auto name = function["name"].as_string();
    if (!name) continue;
    if (request.tool_choice == ToolChoice::kNamed && *name != request.function_name) continue;
    functions.push_back(function);
    if (request.tool_choice == ToolChoice::kNamed) break;
  }
  return functions;
}

std::string name_of(const JsonValue& function) {
  return std::string(function["name"].as_string().value_or(""));
}

// A schema, or `true` where any JSON will do.
std::string arguments_schema(const JsonValue& function, ToolStrictLevel level) {
  const bool is_strict = level == ToolStrictLevel::kParameter || function["strict"].as_bool() == true;
  const JsonValue parameters = function["parameters"];
  return is_strict && !parameters.is_null() ? parameters.dump() : "true";
}

void write_call(JsonWriter& w, std::string_view begin, std::string_view end, const std::string& schema,
                std::string_view schema_style) {
  w.begin_object();
  w.key("type");
  w.string("tag");
  w.key("begin");
  w.string(begin);
  w.key("content");
  w.begin_object();
  w.key("type");
  w.string("json_schema");
  w.key("json_schema");
  w.raw(schema);
  w.key("style");
  w.string(schema_style);
  w.key("any_order");
  w.boolean(false);
  w.key("max_whitespace_cnt");
  w.null();
  w.key("excludes");
  w.begin_array();
  w.end_array();
  w.end_object();
  w.key("end");
  w.string(end);
  w.end_object();
}

// Each way in which a call of the function may be written.
void write_calls(JsonWriter& w, CallStyle style, const JsonValue& function, ToolStrictLevel level) {
  const std::string name = name_of(function);
  const std::string schema = arguments_schema(function, level);
  switch (style) {
    case CallStyle::kHermes:
      for (const std::string_view line : {"\n", ""}) {
        write_call(w, fmt::format(R"(<tool_call>{}{{"name": "{}", "arguments": )", line, name),
                   fmt::format("}}{}</tool_call>", line), schema, "json");
      }
      return;
    case CallStyle::kLlamaJson:
      return write_call(w, fmt::format(R"({{"name": "{}", "parameters": )", name), "}", schema, "json");
    case CallStyle::kQwen3Xml:
      return write_call(w, fmt::format("<tool_call>\n<function={}>\n", name), "\n</function>\n</tool_call>", schema,
                        "qwen_xml");
  }
}

std::string_view trigger_of(CallStyle style) {
  switch (style) {
    case CallStyle::kHermes:
      return "<tool_call>";
    case CallStyle::kLlamaJson:
      return R"({"name": )";
    case CallStyle::kQwen3Xml:
      return "<tool_call>\n<function=";
  }
  return {};
}

void write_texts(JsonWriter& w, std::string_view key, std::initializer_list<std::string_view> texts) {
  w.key(key);
  w.begin_array();
  for (const std::string_view text : texts) w.string(text);
  w.end_array();
}

// What may be written around calls, and how many there may be.
void write_format(JsonWriter& w, CallStyle style, const std::vector<JsonValue>& functions, ToolChoice choice,
                  const ToolGrammarRequest& request, ToolStrictLevel level) {
  const bool is_hermes = style == CallStyle::kHermes;
  const bool one_call = choice == ToolChoice::kNamed || !request.parallel_tool_calls;
  if (choice == ToolChoice::kNamed && !is_hermes) return write_calls(w, style, functions.front(), level);
  const bool has_text = choice == ToolChoice::kAuto || !is_hermes;
  w.begin_object();
  w.key("type");
  w.string(has_text ? "triggered_tags" : "tags_with_separator");
  if (has_text) write_texts(w, "triggers", {trigger_of(style)});
  w.key("tags");
  w.begin_array();
  for (const JsonValue& function : functions) write_calls(w, style, function, level);
  w.end_array();
  if (!has_text) {
    w.key("separator");
    w.string("");
  }
  w.key("at_least_one");
  w.boolean(choice != ToolChoice::kAuto);
  w.key("stop_after_first");
  w.boolean(one_call);
  if (has_text && is_hermes) write_texts(w, "excludes", {});
  if (has_text && !is_hermes) write_texts(w, "excludes", {"<think>", "</think>"});
  w.end_object();
}

// Of a forced call's arguments: without a schema they are an object all the same.
std::string object_schema(const JsonValue& parameters, std::string_view without) {
  return parameters.is_object() && parameters.size() > 0 ? parameters.dump() : std::string(without);
}

// A list of calls, each {"name": ..., KEY: ...}.
std::string list_schema(const std::vector<JsonValue>& functions, std::string_view key, std::string_view without,
                        bool is_typed, bool one_call) {
  JsonWriter w;
  w.begin_object();
  w.key("type");
  w.string("array");
  w.key("minItems");
  w.integer(1);
  if (one_call) {
    w.key("maxItems");
    w.integer(1);
  }
  w.key("items");
  w.begin_object();
  w.key("type");
  w.string("object");
  w.key("anyOf");
  w.begin_array();
  for (const JsonValue& function : functions) {
    w.begin_object();
    if (is_typed) {
      w.key("type");
      w.string("object");
    }
    w.key("properties");
    w.begin_object();
    w.key("name");
    w.begin_object();
    w.key("type");
    w.string("string");
    const std::string name = name_of(function);
    write_texts(w, "enum", {name});
    w.end_object();
    w.key(key);
    w.raw(object_schema(function["parameters"], without));
    w.end_object();
    write_texts(w, "required", {"name", key});
    w.end_object();
  }
  w.end_array();
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

}  // namespace

std::optional<std::string> structural_tag(CallStyle style, const ToolGrammarRequest& request) {
  const bool is_auto = request.tool_choice == ToolChoice::kAuto;
  if (!is_auto && !is_forced(request)) return std::nullopt;
  const std::vector<JsonValue> functions = functions_of(request);
  if (functions.empty()) return std::nullopt;
  const bool has_format = is_auto && !request.output_format.empty();
  ToolStrictLevel level = request.strict_level;
  // To count calls a grammar has to know them; but a format that is asked for stays the only thing there is.
  if (!request.parallel_tool_calls && !has_format) level = std::max(level, ToolStrictLevel::kFunction);
  const auto is_strict = [](const JsonValue& function) { return function["strict"].as_bool() == true; };
  if (is_auto && level == ToolStrictLevel::kAuto && std::ranges::none_of(functions, is_strict)) return std::nullopt;

  JsonWriter w;
  w.begin_object();
  w.key("type");
  w.string("structural_tag");
  w.key("format");
  if (has_format) {
    // Either what was asked for or calls, and no other text.
    w.begin_object();
    w.key("type");
    w.string("or");
    w.key("elements");
    w.begin_array();
    write_format(w, style, functions, ToolChoice::kRequired, request, level);
    w.raw(request.output_format);
    w.end_array();
    w.end_object();
  } else {
    write_format(w, style, functions, request.tool_choice, request, level);
  }
  w.end_object();
  return std::move(w).str();
}

std::optional<std::string> forced_call_schema(const ToolGrammarRequest& request) {
  const std::vector<JsonValue> functions = functions_of(request);
  if (!is_forced(request) || functions.empty()) return std::nullopt;
  constexpr std::string_view kAnyObject = R"({"type":"object","properties":{}})";
  if (request.tool_choice == ToolChoice::kNamed) return object_schema(functions.front()["parameters"], kAnyObject);
  return list_schema(functions, "parameters", kAnyObject, false, !request.parallel_tool_calls);
}

std::optional<std::string> mistral_call_schema(const ToolGrammarRequest& request) {
  const std::vector<JsonValue> functions = functions_of(request);
  if (!is_forced(request) || functions.empty() || !request.output_format.empty()) return std::nullopt;
  const bool one_call = request.tool_choice == ToolChoice::kNamed;
  return list_schema(functions, "arguments", R"({"type":"object"})", true, one_call);
}

std::optional<ToolStrictLevel> parse_tool_strict_level(std::string_view name) {
  if (name == "auto") return ToolStrictLevel::kAuto;
  if (name == "function") return ToolStrictLevel::kFunction;
  if (name == "parameter") return ToolStrictLevel::kParameter;
  return std::nullopt;
}

}  // namespace unspool::chat
