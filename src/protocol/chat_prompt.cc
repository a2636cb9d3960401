#include "protocol/chat_prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "chat/messages.h"
#include "chat/tool_definitions.h"
#include "jinja/json_value.h"
#include "protocol/python_text.h"

namespace unspool {
namespace {

using jinja::Value;

constexpr std::string_view kThinking = "enable_thinking";

ApiError template_error(const jinja::TemplateError& error) {
  return bad_request(error.describe());
}

// The server's, one of the model's by its name, or the request's own.
ApiResult<ChatConfig::Template> choose_template(const TemplateFields& fields, const ChatConfig& config) {
  if (!fields.chat_template) {
    const auto& served = fields.tools.is_null() ? config.chat_template : config.tool_template;
    if (served == nullptr) return bad_request(config.no_template);
    return served;
  }
  for (const auto& [name, named] : config.named_templates) {
    if (name == *fields.chat_template) return named;
  }
  auto parsed = chat::ChatTemplate::parse(*fields.chat_template, config.special_tokens, config.content_format);
  if (!parsed.ok()) return template_error(parsed.error());
  return ChatConfig::Template(std::move(*parsed));
}

// Names that belong to the call of the template, not to its variables.
MaybeError check_kwargs(const JsonValue& kwargs) {
  std::vector<std::string> unexpected;
  for (const char* name : {"chat_template", "tokenize"}) {
    if (kwargs.find(name)) unexpected.push_back(python::repr(std::string_view(name)));
  }
  if (unexpected.empty()) return std::nullopt;
  return bad_request(
      fmt::format("Found unexpected chat template kwargs from request: {{{}}}", fmt::join(unexpected, ", ")));
}

void add_kwargs(const JsonValue& from, jinja::Variables& to) {
  for (const auto& [name, value] : from.members()) {
    to[std::string(name)] = jinja::from_json(value, jinja::Origin::kInput);
  }
}

// What the server says, then what the request's kwargs say, then what its own fields say.
jinja::Variables read_kwargs(const TemplateFields& fields, const ChatConfig& config) {
  jinja::Variables out;
  if (config.default_kwargs) add_kwargs(config.default_kwargs->root(), out);
  if (fields.reasoning_effort) out[std::string(kThinking)] = Value::boolean(*fields.reasoning_effort != "none");
  add_kwargs(fields.kwargs, out);
  if (fields.reasoning_effort) out["reasoning_effort"] = Value::string(*fields.reasoning_effort);
  out.erase("tools");
  return out;
}

std::string plain_text(const Value& content) {
  if (content.is_string()) return content.text().bytes();
  std::vector<std::string> texts;
  if (!content.is_list()) return {};
  for (const Value& part : content.items()) {
    const Value* const text = part.is_dict() ? part.as_dict().find("text") : nullptr;
    if (text != nullptr && text->is_string()) texts.push_back(text->text().bytes());
  }
  return fmt::format("{}", fmt::join(texts, "\n"));
}

std::string member_text(const Value& message, std::string_view name) {
  const Value* const value = message.as_dict().find(name);
  return value == nullptr ? std::string() : plain_text(*value);
}

bool is_set(const jinja::Variables& variables, std::string_view name) {
  const auto at = variables.find(name);
  if (at == variables.end()) return true;
  const Value& value = at->second;
  if (value.is_none()) return false;
  if (const auto number = value.as_number()) return *number != 0.0;
  return !value.is_string() || !value.text().empty();
}

Result<chat::Conversation> read_conversation(const JsonValue& messages, const TemplateFields& fields,
                                             const chat::ChatTemplate& chat_template, const ChatConfig& config) {
  chat::Conversation out;
  UNSPOOL_ASSIGN(out.messages, chat::read_messages(messages, chat_template));
  if (!fields.tools.is_null()) {
    UNSPOOL_ASSIGN(out.tools, chat::read_tools(fields.tools));
  }
  try {
    out.kwargs = read_kwargs(fields, config);
    if (!fields.documents.is_null()) {
      out.documents = jinja::from_json(fields.documents, jinja::Origin::kInput);
    } else if (const auto documents = out.kwargs.find("documents"); documents != out.kwargs.end()) {
      out.documents = documents->second;
    }
  } catch (const jinja::Fault& fault) {
    return invalid_argument(fault.error.message);
  }
  return out;
}

}  // namespace

bool enables_thinking(const TemplateFields& fields, const ChatConfig& config) {
  try {
    return is_set(read_kwargs(fields, config), kThinking);
  } catch (const jinja::Fault&) {
    return true;  // a number among the kwargs that no template could be given
  }
}

MaybeError check_request_template(const TemplateFields& fields, const ServingConfig& config) {
  if (config.chat.trust_request_template) return std::nullopt;
  if (!fields.chat_template && fields.kwargs["chat_template"].is_null()) return std::nullopt;
  return bad_request(
      "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with "
      "untrusted chat template.");
}

ApiResult<ChatPrompt> render_chat(const JsonValue& messages, const TemplateFields& fields,
                                  const ServingConfig& config) {
  if (auto error = check_request_template(fields, config)) return *error;
  if (auto error = check_kwargs(fields.kwargs)) return *error;
  const auto chosen = choose_template(fields, config.chat);
  if (!chosen.ok()) return chosen.error();
  const chat::ChatTemplate& chat_template = **chosen;
  const auto conversation = read_conversation(messages, fields, chat_template, config.chat);
  if (!conversation.ok()) return from_engine_error(conversation.error());
  chat::RenderOptions options;
  options.add_generation_prompt = fields.add_generation_prompt;
  options.continue_final_message = fields.continue_final_message;
  auto text = chat_template.render(*conversation, options, jinja::local_clock());
  if (!text.ok()) return template_error(text.error());

  ChatPrompt out;
  out.text = text->bytes();
  const Value& last = conversation->messages.back();
  out.role = fields.add_generation_prompt ? config.chat.response_role : member_text(last, "role");
  if (member_text(last, "role") == out.role) out.last_content = member_text(last, "content");
  out.enable_thinking = is_set(conversation->kwargs, kThinking);
  return out;
}

}  // namespace unspool
