// Any template, over any JSON after its first zero byte: a text within the limits or an error that says something.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "chat/chat_template.h"
#include "jinja/json_value.h"
#include "jinja/template.h"
#include "json/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto parsed = chat::ChatTemplate::parse(input.substr(0, zero));
  if (!parsed.ok()) {
    if (parsed.error().message.empty()) std::abort();
    return 0;
  }
  const std::string_view json = zero == std::string_view::npos ? "" : input.substr(zero + 1);
  const auto document = JsonDocument::parse(json.empty() ? R"({"messages":[{"role":"user","content":"hi"}]})" : json);
  if (!document.ok()) return 0;
  chat::Conversation conversation;
  conversation.messages = {jinja::Value::dict({})};
  try {
    for (const auto& [name, value] : document->root().members()) {
      conversation.kwargs[std::string(name)] = jinja::from_json(value, jinja::Origin::kInput);
    }
  } catch (const jinja::Fault&) {
    return 0;
  }
  chat::RenderOptions options;
  options.limits = {.max_steps = 20'000, .max_depth = 100, .max_output_bytes = 1 << 20};
  const auto text = (*parsed)->render(conversation, options, [](const std::string& format) { return format; });
  if (text.ok()) {
    size_t at = 0;
    for (const auto& run : text->runs()) {
      if (run.begin != at || run.end <= run.begin) std::abort();
      at = run.end;
    }
    if (at != text->size() || at > options.limits.max_output_bytes) std::abort();
  } else if (text.error().message.empty() && text.error().kind != jinja::TemplateError::Kind::kRaised) {
    std::abort();
  }
  return 0;
}
