// Every field of a chat body, and of what its relatives take, with every kind of value: an answer, never a throw.
#include <gtest/gtest.h>

#include "chat_fixture.h"
#include "protocol/derender_api.h"
#include "protocol/render_api.h"
#include "protocol/tokenize_api.h"

namespace unspool {
namespace {

const std::vector<std::string> kFields = {"messages",
                                          "tools",
                                          "tool_choice",
                                          "documents",
                                          "chat_template",
                                          "reasoning_effort",
                                          "echo",
                                          "logprobs",
                                          "top_logprobs",
                                          "chat_template_kwargs",
                                          "n",
                                          "max_tokens",
                                          "stream",
                                          "stream_options",
                                          "max_completion_tokens",
                                          "stop",
                                          "response_format",
                                          "add_generation_prompt",
                                          "return_prompt_text",
                                          "continue_final_message",
                                          "include_reasoning",
                                          "parallel_tool_calls",
                                          "mm_processor_kwargs",
                                          "generate_response",
                                          "generate_responses",
                                          "chat_request",
                                          "completion_request",
                                          "prompt_tokens",
                                          "prompt_token_ids",
                                          "structured_outputs"};

const std::vector<std::string> kValues = {
    "null",
    "true",
    "0",
    "-1",
    "1e300",
    "18446744073709551615",
    R"("")",
    R"("auto")",
    R"("{{ 1 / 0 }}")",
    R"("{{ messages.x.y }}")",
    "[]",
    "[null]",
    "[[]]",
    "[1]",
    R"(["a"])",
    "{}",
    R"([{}])",
    R"([{"role":"user","content":"hi"}])",
    R"([{"role":"user","content":[{}]}])",
    R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"[1"}}]}])",
    R"([{"role":null}])",
    R"([[{"role":"user","content":"a"}]])",
    R"([{"function":{"name":"f"}}])",
    R"([{"function":{"name":null}}])",
    R"({"function":{"name":5}})",
    R"({"enable_thinking":[]})",
    R"({"x":123456789012345678901234567890})",
    R"({"include_usage":true})",
    R"({"choices":[]})",
    R"({"choices":[{}]})",
    R"({"choices":[1]})",
    R"({"choices":[{"token_ids":[1e300]}]})",
    R"({"choices":[{"token_ids":[99999999999],"logprobs":{"content":[{"token_id":1,"logprob":1e308}]}}]})",
    R"([{"choices":[{"token_ids":[5],"logprobs":{"content":[{}]}}]}])",
    R"([{"choices":[{"token_ids":[10104],"finish_reason":"stop","stop_reason":"h"}],"prompt_token_ids":[1]}])",
    R"([{"choices":[{}]},{"choices":[{},{}]}])",
    R"({"type":"json_schema"})"};

void try_body(const std::string& body) {
  const auto document = JsonDocument::parse(body);
  if (!document.ok()) return;
  ServingConfig config = chat_serving_config();
  config.chat.trust_request_template = true;
  const JsonValue root = document->root();
  for (const bool batch : {false, true}) {
    const auto parsed = parse_chat_request(root, config, batch);
    if (parsed.ok()) (void)prepare_chat(*parsed, {}, config);
  }
  (void)render_chat_request(root, {}, config);
  (void)render_completion_request(root, {}, config);
  (void)derender_chat(root, config);
  (void)derender_completion(root, config);
  (void)tokenize(root, config);
}

TEST(HostileChats, EveryFieldTakesOrRefusesEveryValue) {
  for (const std::string& field : kFields) {
    for (const std::string& value : kValues) {
      const std::string member = "\"" + field + "\":" + value;
      try_body("{" + member + "}");
      try_body(R"({"messages":[{"role":"user","content":"hi"}],)" + member + "}");
      try_body(R"({"generate_response":{"choices":[{"token_ids":[10104]}]},"generate_responses":[{"choices":[{}]}],)" +
               member + "}");
    }
  }
}

TEST(HostileChats, BodiesThatAreNoObjects) {
  for (const std::string& value : kValues) try_body(value);
}

ApiResult<std::string> derender(const std::string& body) {
  const auto document = JsonDocument::parse(body);
  return derender_chat(document->root(), chat_serving_config());
}

TEST(HostileChats, DerenderIsBounded) {
  std::string ids = "[10104";
  for (int i = 0; i < 5000; ++i) ids += ",10104";
  EXPECT_EQ(derender(R"({"generate_response":{"choices":[{"token_ids":)" + ids + "]}]}}").error().message,
            "token_ids length (5001) in choice 0 exceeds max_model_len (4096).");
  EXPECT_FALSE(derender(R"({"generate_response":{"choices":[{"token_ids":[10104]}]},"prompt_tokens":99999})").ok());
  EXPECT_FALSE(derender(R"({"generate_response":{"choices":[{"token_ids":[1]}],"output_mode":"text"}})").ok());
  EXPECT_FALSE(derender(R"({"stream":true,"generate_response":{"choices":[{"token_ids":[1]}]}})").ok());
  EXPECT_EQ(derender(R"({"model":"x","generate_response":{"choices":[{"token_ids":[1]}]}})").error().status, 404);
}

TEST(HostileChats, DerenderCutsAtTheStopString) {
  const auto text = [](const std::string& more) {
    const std::string ids = "[10104,10105,10106]";  // "hij"
    const auto body = derender(R"({"generate_response":{"request_id":"r","choices":[{"token_ids":)" + ids +
                               R"(,"finish_reason":"stop","stop_reason":"j"}]},"prompt_tokens":2)" + more + "}");
    if (!body.ok()) return body.error().message;
    const auto document = JsonDocument::parse(*body);
    EXPECT_EQ(document->root()["id"].as_string(), "r");
    EXPECT_EQ(document->root()["usage"]["total_tokens"].as_int64(), 5);
    return std::string(*document->root()["choices"].elements()[0]["message"]["content"].as_string());
  };
  EXPECT_EQ(text(""), "hi");
  EXPECT_EQ(text(R"(,"chat_request":{"messages":[],"include_stop_str_in_output":true})"), "hij");
}

}  // namespace
}  // namespace unspool
