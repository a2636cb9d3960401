// A server that chats: the fake tokenizer, and a template as plain as they come.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "fake_tokenizer.h"
#include "json/json.h"
#include "protocol/prepared_request.h"

namespace unspool {

inline constexpr std::string_view kChatTemplate =
    "{% for m in messages %}{{ m.role + ':' + m.content + ';' }}{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if flavour is defined %}{{ flavour }}{% endif %}"
    "{% if enable_thinking is defined %}{{ '<think>' if enable_thinking else '<no>' }}{% endif %}"
    "{% if documents %}{{ documents[0].title }}{% endif %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

inline ChatConfig::Template chat_template(std::string_view source) {
  auto parsed = chat::ChatTemplate::parse(source);
  return parsed.ok() ? ChatConfig::Template(std::move(*parsed)) : nullptr;
}

inline ServingConfig chat_serving_config() {
  ServingConfig config;
  config.served_model_names = {"smollm2"};
  config.max_model_len = 4096;
  config.vocab_size = 49152;
  config.tokenizer = std::make_shared<FakeTokenizer>();
  config.eos_token_id = 2;
  config.chat.chat_template = config.chat.tool_template = chat_template(kChatTemplate);
  return config;
}

inline ApiResult<PreparedRequest> prepare_chat_body(std::string_view body, const ServingConfig& config,
                                                    const RequestHeaders& headers = {}, bool batch = false) {
  const auto document = JsonDocument::parse(body);
  if (!document.ok()) return bad_request("the test's body is no JSON");
  const auto parsed = parse_chat_request(document->root(), config, batch);
  if (!parsed.ok()) return parsed.error();
  return prepare_chat(*parsed, headers, config);
}

}  // namespace unspool
