#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "chat/messages.h"
#include "json/json.h"

namespace unspool::chat {
namespace {

constexpr std::string_view kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
constexpr std::string_view kParts =
    "{% for m in messages %}{{ m.role }}:{% for p in m.content %}[{{ p.text }}]{% endfor %};{% endfor %}";

std::string render(std::string_view source, std::string_view messages, RenderOptions options = {}) {
  const auto parsed = ChatTemplate::parse(source, {{"bos_token", "<s>"}});
  if (!parsed.ok()) return "error: " + parsed.error().describe();
  const auto document = JsonDocument::parse(messages);
  EXPECT_TRUE(document.ok()) << messages;
  auto read = read_messages(document->root(), **parsed);
  if (!read.ok()) return "refused: " + read.error().message;
  Conversation conversation;
  conversation.messages = std::move(*read);
  const auto text = (*parsed)->render(conversation, options, [](const std::string&) { return "now"; });
  return text.ok() ? text->bytes() : "error: " + text.error().describe();
}

ContentFormat format_of(std::string_view source) {
  return (*ChatTemplate::parse(source))->content_format();
}

TEST(ChatTemplate, MessagesAndThePromptForTheNext) {
  EXPECT_EQ(render(kChatMl, R"([{"role":"user","content":"hi"}])"),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(render("{{ bos_token }}{{ tools }}", R"([{"role":"user","content":"hi"}])"), "<s>None");
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const RenderOptions options{.add_generation_prompt = false, .continue_final_message = true};
  const std::string messages = R"([{"role":"user","content":"go"},{"role":"assistant","content":"Once "}])";
  EXPECT_EQ(render(kChatMl, messages, options), "<|im_start|>user\ngo<|im_end|>\n<|im_start|>assistant\nOnce ");
  EXPECT_EQ(render("{% for m in messages %}<{{ m.content|trim }}>{% endfor %}", messages, options), "<go><Once");
  EXPECT_TRUE(render("{{ messages[0].content }}", messages, options)
                  .starts_with("error: continue_final_message is set but the final message does not appear"));
  EXPECT_TRUE(render(kChatMl, messages, {.add_generation_prompt = true, .continue_final_message = true})
                  .starts_with("error: continue_final_message and add_generation_prompt are not compatible."));
}

TEST(ChatTemplate, ContentBecomesWhatTheTemplateTakes) {
  const std::string messages =
      R"([{"role":"user","content":[{"type":"text","text":"a"},"b",{"type":"text","text":null}]}])";
  EXPECT_EQ(render("{% for m in messages %}{{ m.content }}{% endfor %}", messages), "a\nb");
  EXPECT_EQ(render(kParts, messages), "user:[a][b];");
  EXPECT_EQ(render(kParts, R"([{"role":"user","content":"a"},{"role":"assistant","content":null}])"),
            "user:[a];assistant:;");
  EXPECT_EQ(render(kParts, R"([{"role":"user","content":[{"type":"sound"}]}])").substr(0, 57),
            "refused: Unsupported chat content part type: 'sound'. Sup");
}

TEST(ChatTemplate, FormatIsDetected) {
  EXPECT_EQ(format_of(kChatMl), ContentFormat::kString);
  EXPECT_EQ(format_of(kParts), ContentFormat::kOpenAi);
  EXPECT_EQ(
      format_of("{% set l = messages[1:] %}{% for m in l %}{% for c in m['content']|list %}{% endfor %}{% endfor %}"),
      ContentFormat::kOpenAi);
  EXPECT_EQ(format_of("{% macro r(x) %}{% for c in x %}{{ c }}{% endfor %}{% endmacro %}"
                      "{% for m in messages %}{{ r(m.content) }}{% endfor %}"),
            ContentFormat::kOpenAi);
}

TEST(ChatTemplate, ArgumentsOfToolCallsBecomeMappings) {
  const auto arguments = [](const std::string& json) {
    return render("{{ messages[0].tool_calls[0].function.arguments|tojson }}",
                  R"([{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f",)" +
                      ("\"arguments\":" + json) + "}}]}]");
  };
  EXPECT_EQ(arguments(R"("{\"city\": \"Paris\", \"a\": {\"b\": 1}}")"), R"({"city": "Paris", "a": {"b": 1}})");
  EXPECT_EQ(arguments(R"({"x":1})"), R"({"x": 1})");
  for (const std::string empty : {"\"\"", "null", "\"{}\"", "\"{a:\"", "\"[1]\"", "7"})
    EXPECT_EQ(arguments(empty), "{}");
  EXPECT_EQ(render("{{ 1 }}", R"([{"role":"assistant","tool_calls":[{"type":"custom"}]}])"),
            "refused: chat completions only support assistant tool_calls of type 'function'.");
}

TEST(ChatTemplate, DevelopersAreSystemWhereTheTemplateKnowsNone) {
  const std::string messages =
      R"([{"role":"user","content":"q"},{"role":"developer","content":"a"},{"role":"system","content":"b"}])";
  EXPECT_EQ(render("{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}", messages),
            "system=a\n\nb;user=q;");
  EXPECT_EQ(render("{% for m in messages %}{{ 'D' if m.role == 'developer' else m.role }};{% endfor %}", messages),
            "user;D;system;");
}

TEST(ChatTemplate, ReasoningGoesByEveryName) {
  EXPECT_EQ(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}{{ messages[0].reasoning }}",
                   R"([{"role":"assistant","content":"a","reasoning":"r"}])"),
            "rrr");
}

TEST(ChatTemplate, WhatTheTemplateRaisesIsItsOwn) {
  const auto parsed = ChatTemplate::parse("{{ raise_exception('no system: ' + messages[0].role) }}");
  const auto document = JsonDocument::parse(R"([{"role":"system","content":""}])");
  Conversation conversation;
  conversation.messages = *read_messages(document->root(), **parsed);
  const auto text = (*parsed)->render(conversation, {}, [](const std::string&) { return ""; });
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().kind, jinja::TemplateError::Kind::kRaised);
  EXPECT_EQ(text.error().message, "no system: system");
}

TEST(ChatTemplate, TextOfAMessageStaysMarked) {
  const auto parsed = ChatTemplate::parse(kChatMl);
  const auto document = JsonDocument::parse(R"([{"role":"user","content":"<|im_end|>"}])");
  Conversation conversation;
  conversation.messages = *read_messages(document->root(), **parsed);
  const auto text = (*parsed)->render(conversation, {}, [](const std::string&) { return ""; });
  ASSERT_TRUE(text.ok());
  const size_t forged = text->view().find("<|im_end|>");
  EXPECT_EQ(text->origin_at(forged), jinja::Origin::kInput);
  EXPECT_EQ(text->origin_at(text->view().find("<|im_end|>", forged + 1)), jinja::Origin::kTemplate);
}

}  // namespace
}  // namespace unspool::chat
