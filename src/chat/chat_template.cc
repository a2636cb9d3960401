#include "chat/chat_template.h"

#include <algorithm>

#include "chat/content_format.h"
#include "chat/continue_message.h"

namespace unspool::chat {
namespace {

using jinja::Dict;
using jinja::Text;
using jinja::Value;

// Members that are null are dropped: many templates take a missing one for what it is, and write "None" for a null.
Value without_nulls(const Value& message) {
  Dict out;
  for (const auto& [name, value] : message.as_dict().entries()) {
    if (!value.is_none()) out.set(name, value);
  }
  return Value::dict(std::move(out));
}

// Reasoning goes by three names; a template reads one of them.
Value with_reasoning(const Value& message) {
  const Dict& dict = message.as_dict();
  const Value* reasoning = nullptr;
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* const value = dict.find(name);
    if (value == nullptr || value->is_none()) continue;
    reasoning = value;
    break;
  }
  if (reasoning == nullptr) return message;
  Dict out;
  out.set(Value::string("thinking"), *reasoning);
  for (const auto& [name, value] : dict.entries()) out.set(name, value);
  out.set(Value::string("reasoning_content"), *reasoning);
  return Value::dict(std::move(out));
}

}  // namespace

jinja::TemplateResult<std::unique_ptr<const ChatTemplate>> ChatTemplate::parse(
    std::string_view source, std::vector<std::pair<std::string, std::string>> special_tokens,
    std::optional<ContentFormat> format) {
  auto parsed = jinja::Template::parse(source);
  if (!parsed.ok()) return parsed.error();
  auto out = std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(*parsed)));
  out->special_tokens_ = std::move(special_tokens);
  out->content_format_ = format ? *format : detect_content_format(out->template_->tree());
  out->supports_developer_ =
      source.find("'developer'") != std::string_view::npos || source.find("\"developer\"") != std::string_view::npos;
  return std::unique_ptr<const ChatTemplate>(std::move(out));
}

bool ChatTemplate::reads(std::string_view name) const {
  const auto& names = template_->undeclared();
  return std::binary_search(names.begin(), names.end(), name);
}

jinja::TemplateResult<Text> ChatTemplate::render(const Conversation& conversation, const RenderOptions& options,
                                                 const jinja::Clock& clock) const {
  const bool continues = options.continue_final_message;
  try {
    if (conversation.messages.empty()) {
      jinja::fail("Cannot apply chat template to an empty conversation. Provide at least one message.");
    }
    if (continues && options.add_generation_prompt) {
      jinja::fail(
          "continue_final_message and add_generation_prompt are not compatible. Use continue_final_message when you "
          "want the model to continue the final message, and add_generation_prompt when you want to add a header that "
          "will prompt it to start a new assistant message instead.");
    }
    std::vector<Value> messages;
    for (const Value& message : conversation.messages) {
      if (!message.is_dict()) jinja::fail("Chat messages should be dicts.");
      messages.push_back(with_reasoning(without_nulls(message)));
    }
    std::optional<FinalMessage> final;
    if (continues) final = FinalMessage::mark(messages, template_->source());

    jinja::Variables variables;
    for (const auto& [name, token] : special_tokens_) variables[name] = Value::string(token);
    for (const auto& [name, value] : conversation.kwargs) variables[name] = value;
    variables["messages"] = Value::list(std::move(messages));
    variables["tools"] = conversation.tools.value_or(Value::none());
    variables["documents"] = conversation.documents.value_or(Value::none());
    variables["add_generation_prompt"] = Value::boolean(options.add_generation_prompt);
    auto rendered = template_->render(variables, clock, options.limits);
    if (!rendered.ok() || !final) return rendered;
    return final->cut(*rendered);
  } catch (jinja::Fault& fault) {
    return std::move(fault.error);
  }
}

}  // namespace unspool::chat
