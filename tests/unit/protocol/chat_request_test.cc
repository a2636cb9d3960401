// What a chat request asks of the template and of the engine, and what is refused.
#include <gtest/gtest.h>

#include "chat_fixture.h"
#include "protocol/render_api.h"
#include "protocol/tokenize_api.h"

namespace unspool {
namespace {

constexpr std::string_view kHi = R"("messages":[{"role":"user","content":"hi"}])";

std::string body(std::string_view fields) {
  return "{" + std::string(kHi) + (fields.empty() ? "" : ",") + std::string(fields) + "}";
}

ApiResult<PreparedRequest> prepare(std::string_view fields, const ServingConfig& config = chat_serving_config()) {
  return prepare_chat_body(body(fields), config);
}

ApiError refusal(std::string_view fields, const ServingConfig& config = chat_serving_config()) {
  const auto prepared = prepare(fields, config);
  if (!prepared.ok()) return prepared.error();
  return prepared->lazy_error.value_or(ApiError{200, "accepted", {}, {}});
}

std::string prompt_of(const ApiResult<PreparedRequest>& prepared, const ServingConfig& config) {
  if (!prepared.ok()) return "error: " + prepared.error().message;
  return config.tokenizer->decode(prepared->prompts.at(0).token_ids, false);
}

std::string prompt(std::string_view fields, const ServingConfig& config = chat_serving_config()) {
  return prompt_of(prepare(fields, config), config);
}

const SamplingParams& params(const ApiResult<PreparedRequest>& prepared) {
  EXPECT_TRUE(prepared.ok());
  return prepared->prompts.at(0).params;
}

constexpr std::string_view kTools =
    R"("tools":[{"type":"function","function":{"name":"f","strict":null,"x":1}}],"tool_choice":"none")";

TEST(ChatRequests, ThePromptIsTheTemplates) {
  EXPECT_EQ(prompt(""), "user:hi;assistant:");
  EXPECT_EQ(prompt(R"("add_generation_prompt":false)"), "user:hi;");
  EXPECT_EQ(prompt(R"("add_generation_prompt":false,"continue_final_message":true)"), "user:hi");
  EXPECT_EQ(prompt(R"("documents":[{"title":"T"}])"), "user:hi;Tassistant:");
  EXPECT_EQ(prompt(R"("chat_template_kwargs":{"flavour":"sweet","unknown":3})"), "user:hi;sweetassistant:");
}

TEST(ChatRequests, ToolsComeWithAllTheirMembers) {
  EXPECT_EQ(prompt(kTools),
            R"(user:hi;[{"type": "function", "function": {"name": "f", "description": null, "parameters": null, )"
            R"("x": 1}}]assistant:)");
  ServingConfig config = chat_serving_config();
  config.chat.exclude_tools_when_none = true;
  EXPECT_EQ(prompt(kTools, config), "user:hi;assistant:");
}

TEST(ChatRequests, KwargsOfServerRequestAndFieldsInThatOrder) {
  ServingConfig config = chat_serving_config();
  config.chat.default_kwargs =
      std::make_shared<JsonDocument>(JsonDocument::parse(R"({"flavour":"salty","enable_thinking":false})").value());
  EXPECT_EQ(prompt("", config), "user:hi;salty<no>assistant:");
  EXPECT_EQ(prompt(R"("chat_template_kwargs":{"flavour":"sour"})", config), "user:hi;sour<no>assistant:");
  EXPECT_EQ(prompt(R"("reasoning_effort":"low")", config), "user:hi;salty<think>assistant:");
  EXPECT_EQ(prompt(R"("reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false})", config),
            "user:hi;salty<no>assistant:");
  EXPECT_EQ(prompt(R"("reasoning_effort":"none")"), "user:hi;<no>assistant:");
  EXPECT_EQ(prompt(R"("documents":[{"title":"F"}],"chat_template_kwargs":{"documents":[{"title":"K"}],
                      "add_generation_prompt":false})"),
            "user:hi;Fassistant:");
  EXPECT_EQ(prompt(R"("chat_template_kwargs":{"documents":[{"title":"K"}]})"), "user:hi;Kassistant:");
}

TEST(ChatRequests, TemplatesOfRequestsNeedTrust) {
  const std::string own = R"("chat_template":"{{ messages | length }} of {{ messages[0].content }}")";
  EXPECT_EQ(refusal(own).message,
            "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with "
            "untrusted chat template.");
  EXPECT_EQ(refusal(R"("chat_template_kwargs":{"chat_template":"x"})").message, refusal(own).message);
  ServingConfig config = chat_serving_config();
  config.chat.trust_request_template = true;
  EXPECT_EQ(prompt(own, config), "1 of hi");
  EXPECT_EQ(refusal(R"("chat_template_kwargs":{"chat_template":"x","tokenize":true})", config).message,
            "Found unexpected chat template kwargs from request: {'chat_template', 'tokenize'}");
  config.chat.named_templates = {{"terse", chat_template("!{{ messages[0].content }}")}};
  EXPECT_EQ(prompt(R"("chat_template":"terse")", config), "!hi");
  EXPECT_EQ(refusal(R"("chat_template":"{% if %}")", config).status, 400);
}

TEST(ChatRequests, ATemplateThatFailsIsTheClientsAffair) {
  ServingConfig config = chat_serving_config();
  config.chat.chat_template = chat_template("{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(refusal("", config).message, "roles must alternate");
  EXPECT_EQ(refusal("", config).status, 400);
  config.chat.chat_template = nullptr;
  config.chat.no_template = "there is none";
  EXPECT_EQ(refusal("", config).message, "there is none");
  EXPECT_EQ(refusal("", config).status, 400);
}

TEST(ChatRequests, MaxTokens) {
  const ServingConfig config = chat_serving_config();
  const auto length = static_cast<int>(std::string("user:hi;assistant:").size());
  EXPECT_EQ(params(prepare("")).max_tokens, 4096 - length);
  EXPECT_EQ(params(prepare(R"("max_tokens":5,"max_completion_tokens":3)")).max_tokens, 3);
  EXPECT_EQ(params(prepare(R"("max_tokens":4096)")).max_tokens, 4096 - length);
  EXPECT_EQ(refusal(R"("max_tokens":4097)").param, "max_tokens");
  EXPECT_EQ(refusal(R"("max_completion_tokens":4097)").param, "max_completion_tokens");
  EXPECT_EQ(refusal(R"("max_completion_tokens":0)").message,
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)");
  ServingConfig with_defaults = config;
  with_defaults.defaults.max_tokens = 7;
  EXPECT_EQ(params(prepare("", with_defaults)).max_tokens, 7);
  EXPECT_EQ(params(prepare(R"("max_tokens":9)", with_defaults)).max_tokens, 9);
  with_defaults.defaults.hard_max_tokens = 8;
  EXPECT_EQ(params(prepare(R"("max_tokens":9)", with_defaults)).max_tokens, 8);
}

TEST(ChatRequests, LogprobsAreAFlagAndACount) {
  EXPECT_EQ(params(prepare(R"("logprobs":true)")).logprobs, 0);
  EXPECT_EQ(params(prepare(R"("logprobs":true,"top_logprobs":3)")).logprobs, 3);
  EXPECT_EQ(params(prepare(R"("logprobs":true,"top_logprobs":null)")).logprobs, 0);
  EXPECT_EQ(params(prepare(R"("top_logprobs":0)")).logprobs, std::nullopt);
  EXPECT_EQ(refusal(R"("top_logprobs":-1)").param, "top_logprobs");
  EXPECT_EQ(refusal(R"("logprobs":true,"top_logprobs":-2)").message,
            "`top_logprobs` must be a positive value or -1. (parameter=top_logprobs, value=-2)");
  EXPECT_EQ(refusal(R"("logprobs":true,"top_logprobs":"3")").message,
            "`top_logprobs` must be an integer. (parameter=top_logprobs, value=3)");
  EXPECT_EQ(refusal(R"("logprobs":true,"top_logprobs":21)").param, "logprobs");
  EXPECT_EQ(refusal(R"("stream":true,"prompt_logprobs":1)").param, "prompt_logprobs");
  EXPECT_EQ(refusal(R"("logprob_token_ids":[5])").param, "logprob_token_ids");
  EXPECT_EQ(params(prepare(R"("logprobs":true,"logprob_token_ids":[5])")).logprob_token_ids.size(), 1u);
  // Only the engine would notice, so that a stream has begun.
  EXPECT_TRUE(prepare(R"("logprobs":true,"top_logprobs":21,"stream":true)")->lazy_error);
}

TEST(ChatRequests, EchoAsksForPromptLogprobs) {
  EXPECT_EQ(params(prepare(R"("echo":true)")).prompt_logprobs, 0);
  EXPECT_EQ(params(prepare(R"("echo":true,"logprobs":true,"top_logprobs":2)")).prompt_logprobs, 2);
  EXPECT_EQ(params(prepare("")).prompt_logprobs, std::nullopt);
}

TEST(ChatRequests, NullsAreDefaults) {
  const auto prepared = prepare(
      R"("n":null,"temperature":null,"stop":null,"stream":null,"tools":null,"tool_choice":null,"logprobs":null,
         "max_tokens":null,"parallel_tool_calls":null,"documents":null,"chat_template_kwargs":null)");
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  EXPECT_EQ(params(prepared).n, 1);
  EXPECT_FALSE(prepared->stream);
}

TEST(ChatRequests, Ids) {
  const ServingConfig config = chat_serving_config();
  EXPECT_EQ(prepare(R"("request_id":"r")")->prompts[0].external_id, "chatcmpl-r");
  const auto headers = prepare_chat_body(body(R"("request_id":"r","priority":3)"), config,
                                         {.request_id = "h", .data_parallel_rank = {}, .priority = 5});
  EXPECT_EQ(headers->prompts[0].external_id, "chatcmpl-h");
  EXPECT_EQ(headers->priority, 5);
}

TEST(ChatRequests, Batches) {
  const ServingConfig config = chat_serving_config();
  const std::string two = R"("messages":[[{"role":"user","content":"a"}],[{"role":"user","content":"b"}]])";
  const auto prepared = prepare_chat_body("{" + two + R"(,"request_id":"r"})", config, {}, true);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  ASSERT_EQ(prepared->prompts.size(), 2u);
  EXPECT_EQ(prepared->prompts[1].external_id, "chatcmpl-r_1");
  EXPECT_EQ(config.tokenizer->decode(prepared->prompts[1].token_ids, false), "user:b;assistant:");
  for (const char* field : {R"("stream":true)", R"("n":2,"temperature":1)", R"("echo":true)",
                            R"("tools":[{"type":"function","function":{"name":"f"}}])", R"("use_beam_search":true)"}) {
    EXPECT_FALSE(prepare_chat_body("{" + two + "," + field + "}", config, {}, true).ok()) << field;
  }
  EXPECT_FALSE(prepare_chat_body(R"({"messages":[]})", config, {}, true).ok());
  EXPECT_EQ(prepare_chat_body(R"({"messages":[[{"content":"a"}]]})", config, {}, true).error().param,
            "body.messages.0.0.ChatCompletionDeveloperMessageParam.role");
}

TEST(ChatRequests, MessagesOfEveryShape) {
  const ServingConfig config = chat_serving_config();
  const auto prompt_of_messages = [&](const std::string& messages) {
    return prompt_of(prepare_chat_body(R"({"messages":)" + messages + "}", config), config);
  };
  EXPECT_EQ(prompt_of_messages(R"([{"role":"critic","content":"x"}])"), "critic:x;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"user"}])"), "user:;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"assistant"}])"), "assistant:;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"assistant","content":null}])"), "assistant:;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"tool","content":[{"type":"text","text":"a"},"b"]}])"),
            "tool:a\nb;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"developer","content":"x"}])"), "system:x;assistant:");
  EXPECT_EQ(prompt_of_messages(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "error: This model does not support multimodal input.");
  for (const char* messages :
       {"null", "1", "{}", R"("hi")", "[1]", "[null]", R"([{"role":1,"content":"x"}])",
        R"([{"role":"user","content":5}])", R"([{"role":"user","content":[5]}])", R"([[]])",
        R"([{"role":"assistant","content":"x","tool_calls":1}])",
        R"([{"role":"assistant","content":"x","tool_calls":[1]}])",
        R"([{"role":"assistant","content":"x","tool_calls":[{"type":"other","function":{}}]}])"}) {
    EXPECT_EQ(prompt_of_messages(messages).substr(0, 6), "error:") << messages;
  }
}

TEST(ChatRequests, ControlTokensInAMessageAreTokenizedAsTheReferenceDoes) {
  // One text, special tokens parsed, nothing added: what a message says and what the template says are one.
  const auto prepared =
      prepare_chat_body(R"({"messages":[{"role":"user","content":"a;assistant:b"}]})", chat_serving_config());
  EXPECT_EQ(prompt_of(prepared, chat_serving_config()), "user:a;assistant:b;assistant:");
}

TEST(ChatRequests, ToolChoiceNeedsAParser) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(refusal(tools).message,
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set");
  EXPECT_EQ(refusal(tools + R"(,"tool_choice":"required")").message,
            "tool_choice=\"required\" requires --tool-call-parser to be set");
  EXPECT_EQ(refusal(tools + R"(,"tool_choice":{"type":"function","function":{"name":"f"}})").message,
            "tool_choice=function \"f\" requires --tool-call-parser to be set");
  EXPECT_EQ(refusal(tools + R"(,"tool_choice":"none")").status, 200);
  EXPECT_EQ(refusal(tools + R"(,"tool_choice":null)").status, 200);
}

TEST(ChatRequests, ToolsOfWrongShape) {
  EXPECT_EQ(refusal(R"("tools":[])").param, "tools");
  EXPECT_EQ(refusal(R"("tools":{})").param, "body.tools");
  EXPECT_EQ(refusal(R"("tools":[{"type":"function"}])").param, "body.tools.0.function");
  EXPECT_EQ(refusal(R"("tools":[{"type":"retrieval","function":{"name":"f"}}])").param, "body.tools.0.type");
  EXPECT_EQ(refusal(R"("tools":[{"function":{"description":"d"}}])").param, "body.tools.0.function.name");
  EXPECT_EQ(refusal(R"("tools":[{"function":{"name":"f","parameters":[]}}])").param,
            "body.tools.0.function.parameters");
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":)";
  for (const char* choice : {"5", R"("any")", R"({"type":"function"})", R"({"function":{}})",
                             R"({"function":{"name":""}})", R"({"function":{"name":"g"}})"}) {
    EXPECT_EQ(refusal(tools + choice).param, "tool_choice") << choice;
  }
}

TEST(ChatRequests, OtherRefusals) {
  EXPECT_EQ(refusal(R"("reasoning_effort":"huge")").param, "body.reasoning_effort");
  EXPECT_EQ(refusal(R"("documents":{})").param, "body.documents");
  EXPECT_EQ(refusal(R"("documents":["a"])").param, "body.documents.0");
  EXPECT_EQ(refusal(R"("chat_template_kwargs":[])").param, "body.chat_template_kwargs");
  EXPECT_EQ(refusal(R"("mm_processor_kwargs":{"a":1})").param, "mm_processor_kwargs");
  EXPECT_EQ(refusal(R"("mm_processor_kwargs":{})").status, 200);
  EXPECT_EQ(refusal(R"("stream_options":{"include_usage":true})").param, "stream_options");
  EXPECT_EQ(refusal(R"("model":"other")").status, 404);
  EXPECT_EQ(refusal(R"("continue_final_message":true)").status, 400);
  EXPECT_EQ(refusal(R"("n":2,"temperature":0)").message, "n must be 1 when using greedy sampling, got 2.");
  EXPECT_EQ(refusal(R"("thinking_token_budget":5)").status, 400);
  // The last declared of the reference's validators speaks first, and fields after all of them.
  EXPECT_EQ(refusal(R"("cache_salt":"","stream_options":{"include_usage":true},"temperature":"hot")").param,
            "cache_salt");
  EXPECT_EQ(refusal(R"("stream_options":{"include_usage":true},"temperature":"hot")").param, "stream_options");
}

TEST(ChatRequests, RenderedForTheTokenRoute) {
  const ServingConfig config = chat_serving_config();
  const auto document = JsonDocument::parse(
      body(R"("max_tokens":4,"temperature":0.5,"stop":["x"],"logit_bias":{"5":200},"seed":3,"logprobs":true)"));
  const auto rendered = render_chat_request(document->root(), RequestHeaders{"q", {}, {}}, config);
  ASSERT_TRUE(rendered.ok()) << rendered.error().message;
  const auto json = JsonDocument::parse(*rendered);
  EXPECT_EQ(json->root()["request_id"].as_string(), "chatcmpl-q");
  const auto again = parse_generate_request(json->root(), config);
  ASSERT_TRUE(again.ok()) << again.error().message;
  const auto there = prepare_generate(*again, {}, config);
  const auto here =
      prepare(R"("max_tokens":4,"temperature":0.5,"stop":["x"],"logit_bias":{"5":200},"seed":3,"logprobs":true)");
  EXPECT_EQ(there->prompts[0].token_ids, here->prompts[0].token_ids);
  const SamplingParams& a = there->prompts[0].params;
  const SamplingParams& b = here->prompts[0].params;
  EXPECT_EQ(std::tie(a.max_tokens, a.temperature, a.stop, a.logit_bias, a.seed, a.logprobs),
            std::tie(b.max_tokens, b.temperature, b.stop, b.logit_bias, b.seed, b.logprobs));
}

TEST(ChatRequests, TokenizedAlone) {
  const ServingConfig config = chat_serving_config();
  const auto count = [&](const std::string& fields) {
    const auto document = JsonDocument::parse(body(fields));
    const auto reply = tokenize(document->root(), config);
    if (!reply.ok()) return "error: " + reply.error().message;
    const auto json = JsonDocument::parse(*reply);
    return json->root()["count"].dump();
  };
  EXPECT_EQ(count(""), std::to_string(std::string("user:hi;assistant:").size()));
  EXPECT_EQ(count(R"("add_generation_prompt":false)"), std::to_string(std::string("user:hi;").size()));
  EXPECT_EQ(count(R"("chat_template":"x")").substr(0, 6), "error:");
  EXPECT_EQ(count(R"("tools":[{"type":"function"}])").substr(0, 6), "error:");
  EXPECT_EQ(count(R"("continue_final_message":true,"add_generation_prompt":true)").substr(0, 6), "error:");
}

}  // namespace
}  // namespace unspool
