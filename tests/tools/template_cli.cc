// Renders templates of JSON lines, for comparison with jinja2 (tools/chat_template_parity.py, tools/jinja_fuzz.py).
//
// template_cli
//   a line in   {"template": TEXT, "context": {...}}
//   a line out  {"text": TEXT, "pieces": [[BEGIN, END, "template" | "input"], ...]}, in bytes, or
//               {"error": KIND, "message": TEXT, "line": N}
// template_cli --chat
//   a line in   {"template": TEXT, "messages": [...], "tools": ..., "documents": ..., "kwargs": {...},
//                "special_tokens": {...}, "add_generation_prompt": BOOL, "continue_final_message": BOOL}
//   a line out  as above, with "format": "string" | "openai" beside the text
// --now TEXT: what strftime_now gives, whatever its format.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "chat/chat_template.h"
#include "jinja/json_value.h"
#include "jinja/template.h"
#include "json/json.h"
#include "json/json_writer.h"

namespace {

using unspool::JsonDocument;
using unspool::JsonValue;
using unspool::JsonWriter;
namespace jinja = unspool::jinja;

std::string_view name_of(jinja::TemplateError::Kind kind) {
  switch (kind) {
    case jinja::TemplateError::Kind::kSyntax:
      return "syntax";
    case jinja::TemplateError::Kind::kRuntime:
      return "runtime";
    case jinja::TemplateError::Kind::kUnsupported:
      return "unsupported";
    case jinja::TemplateError::Kind::kRaised:
      return "raised";
    case jinja::TemplateError::Kind::kLimit:
      break;
  }
  return "limit";
}

std::string answer(const jinja::TemplateResult<jinja::Text>& result, std::string_view format) {
  JsonWriter w;
  w.begin_object();
  if (!format.empty()) {
    w.key("format");
    w.string(format);
  }
  if (result.ok()) {
    w.key("text");
    w.string(result->view());
    w.key("pieces");
    w.begin_array();
    for (const auto& run : result->runs()) {
      w.begin_array();
      w.integer(static_cast<int64_t>(run.begin));
      w.integer(static_cast<int64_t>(run.end));
      w.string(run.origin == jinja::Origin::kInput ? "input" : "template");
      w.end_array();
    }
    w.end_array();
  } else {
    w.key("error");
    w.string(name_of(result.error().kind));
    w.key("message");
    w.string(result.error().message);
    w.key("line");
    w.integer(result.error().line);
  }
  w.end_object();
  return std::move(w).str();
}

jinja::TemplateResult<jinja::Text> render(const JsonValue& request, const jinja::Clock& clock) {
  const auto parsed = jinja::Template::parse(request["template"].as_string().value_or(""));
  if (!parsed.ok()) return parsed.error();
  jinja::Variables variables;
  try {
    for (const auto& [name, value] : request["context"].members()) {
      variables[std::string(name)] = jinja::from_json(value, jinja::Origin::kInput);
    }
  } catch (jinja::Fault& fault) {
    return std::move(fault.error);
  }
  return (*parsed)->render(variables, clock);
}

// `format` receives the content format of the template.
jinja::TemplateResult<jinja::Text> render_chat(const JsonValue& request, const jinja::Clock& clock,
                                               std::string_view& format) {
  using unspool::chat::ChatTemplate;
  std::vector<std::pair<std::string, std::string>> special_tokens;
  for (const auto& [name, token] : request["special_tokens"].members()) {
    special_tokens.emplace_back(name, token.as_string().value_or(""));
  }
  const auto parsed = ChatTemplate::parse(request["template"].as_string().value_or(""), special_tokens);
  if (!parsed.ok()) return parsed.error();
  format = (*parsed)->content_format() == unspool::chat::ContentFormat::kString ? "string" : "openai";
  unspool::chat::Conversation conversation;
  try {
    const auto value = [](const JsonValue& json) { return jinja::from_json(json, jinja::Origin::kInput); };
    for (const JsonValue& message : request["messages"].elements()) conversation.messages.push_back(value(message));
    if (!request["tools"].is_null()) conversation.tools = value(request["tools"]);
    if (!request["documents"].is_null()) conversation.documents = value(request["documents"]);
    for (const auto& [name, item] : request["kwargs"].members()) conversation.kwargs[std::string(name)] = value(item);
  } catch (jinja::Fault& fault) {
    return std::move(fault.error);
  }
  unspool::chat::RenderOptions options;
  options.add_generation_prompt = request["add_generation_prompt"].as_bool().value_or(true);
  options.continue_final_message = request["continue_final_message"].as_bool().value_or(false);
  return (*parsed)->render(conversation, options, clock);
}

}  // namespace

int main(int argc, char** argv) {
  jinja::Clock clock = jinja::local_clock();
  bool is_chat = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--chat") {
      is_chat = true;
    } else if (option == "--now" && i + 1 < argc) {
      clock = [now = std::string(argv[++i])](const std::string&) { return now; };
    } else {
      fmt::print(stderr, "usage: template_cli [--chat] [--now TEXT]\n");
      return 1;
    }
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto document = JsonDocument::parse(line);
    if (!document.ok()) {
      fmt::print(stderr, "template_cli: {}\n", document.error().message);
      return 1;
    }
    std::string_view format;
    const auto result = is_chat ? render_chat(document->root(), clock, format) : render(document->root(), clock);
    fmt::print("{}\n", answer(result, format));
    std::fflush(stdout);  // whoever asks may wait for each answer
  }
  return 0;
}
