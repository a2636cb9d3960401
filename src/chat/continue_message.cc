#include "chat/continue_message.h"

#include <fmt/format.h>

#include "jinja/characters.h"
#include "jinja/string_search.h"

namespace unspool::chat {
namespace {

using jinja::Dict;
using jinja::Origin;
using jinja::Text;
using jinja::Value;

// The space tells whether the template trims what it is given.
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTrimmedTag = "CONTINUE_FINAL_MESSAGE_TAG";

Value tagged(const Text& text) {
  Text out = text;
  out.append(kTag, Origin::kTemplate);
  return Value::string(std::move(out));
}

Value with_member(const Value& dict, std::string_view name, Value value) {
  Dict out = dict.as_dict();
  out.set(Value::string(name), std::move(value));
  return Value::dict(std::move(out));
}

}  // namespace

FinalMessage FinalMessage::mark(std::vector<Value>& messages, std::string_view source) {
  if (messages.empty()) jinja::fail("continue_final_message is set but the conversation is empty!");
  Value& last = messages.back();
  const Value* const content = last.as_dict().find("content");
  if (content == nullptr || content->is_none()) {
    jinja::fail("continue_final_message is set but the final message has no \"content\" to continue!");
  }
  if (source.find("content") == std::string_view::npos) {
    jinja::fail("continue_final_message is set to \"content\" but this is not an accepted field in the chat_template");
  }
  if (content->is_string()) {
    FinalMessage final(content->text());
    last = with_member(last, "content", tagged(final.text_));
    return final;
  }
  if (!content->is_sequence()) jinja::fail("continue_final_message is set but the final message is no text");
  std::vector<Value> parts = content->items();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const Value* const text = part->is_dict() ? part->as_dict().find("text") : nullptr;
    if (text == nullptr || !text->is_string()) continue;
    FinalMessage final(text->text());
    *part = with_member(*part, "text", tagged(final.text_));
    last = with_member(last, "content", Value::list(std::move(parts)));
    return final;
  }
  jinja::fail("continue_final_message is set but we could not find any text to continue in the final message!");
}

Text FinalMessage::cut(const Text& rendered) const {
  const std::string_view view = rendered.view();
  const Text trimmed = jinja::strip(text_, std::nullopt, true, true);
  const size_t tag = view.rfind(kTrimmedTag);
  if (tag == std::string_view::npos || view.find(trimmed.view()) == std::string_view::npos) {
    jinja::fail(fmt::format(
        "continue_final_message is set but the final message does not appear in the chat after applying the chat "
        "template! This can happen if the chat template deletes portions of the final message. Please verify the chat "
        "template and final message in your chat to ensure they are compatible.Final message to continue: "
        "{}\nRendered chat:\n{}",
        trimmed.view(), view));
  }
  if (view.substr(tag).starts_with(kTag)) return rendered.slice(0, tag);
  // The template trims, so that the space at the message's own end was to go too.
  return rendered.slice(0, tag - jinja::trailing_space(view.substr(0, tag)));
}

}  // namespace unspool::chat
