// Every request that the recordings refuse is refused in the same words.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "chat_fixture.h"
#include "protocol/prepared_request.h"
#include "protocol/request_body.h"
#include "protocol/tokenize_api.h"

namespace unspool {
namespace {

ServingConfig config() {
  return chat_serving_config();
}

struct Answer {
  MaybeError error;
  bool lazy = false;
};

template <class Parsed>
Answer prepare(ApiResult<Parsed> parsed, const RequestHeaders& headers, const ServingConfig& config) {
  if (!parsed.ok()) return {parsed.error()};
  ApiResult<PreparedRequest> prepared = [&] {
    if constexpr (std::is_same_v<Parsed, CompletionRequest>) {
      return prepare_completion(*parsed, headers, config);
    } else {
      return prepare_generate(*parsed, headers, config);
    }
  }();
  if (!prepared.ok()) return {prepared.error()};
  return {prepared->lazy_error, prepared->lazy_error.has_value()};
}

Answer ask(std::string_view path, const std::string& content_type, std::string_view body,
           const RequestHeaders& headers = {}, const ServingConfig& config = unspool::config()) {
  auto document = parse_body(&content_type, body);
  if (!document.ok()) return {document.error()};
  const JsonValue root = document->root();
  if (path == "/v1/chat/completions") {
    const auto parsed = parse_chat_request(root, config);
    if (!parsed.ok()) return {parsed.error()};
    const auto prepared = prepare_chat(*parsed, headers, config);
    return prepared.ok() ? Answer{prepared->lazy_error, prepared->lazy_error.has_value()} : Answer{prepared.error()};
  }
  if (path == "/v1/completions") return prepare(parse_completion_request(root, config), headers, config);
  if (path == "/inference/v1/generate") return prepare(parse_generate_request(root, config), headers, config);
  const auto reply = path == "/tokenize" ? tokenize(root, config) : detokenize(root, config);
  return reply.ok() ? Answer{} : Answer{reply.error()};
}

Answer complete(std::string_view body, const ServingConfig& config = unspool::config()) {
  return ask("/v1/completions", "application/json", body, {}, config);
}
Answer generate(std::string_view body, const ServingConfig& config = unspool::config()) {
  return ask("/inference/v1/generate", "application/json", body, {}, config);
}

TEST(Refusals, MatchTheRecordings) {
  const auto text = read_file(UNSPOOL_TEST_DATA "/contract/cases.json");
  ASSERT_TRUE(text.ok());
  const auto document = JsonDocument::parse(*text);
  ASSERT_TRUE(document.ok());
  // Another engine's own words, or structured outputs, which come later.
  const std::set<std::string_view> free_text = {"completions/refused_surrogate"};
  const std::set<std::string_view> later = {"completions/refused_regex_bad", "completions/refused_schema_bad"};
  int compared = 0;
  for (const JsonValue& one : document->root().elements()) {
    const std::string_view name = *one["name"].as_string();
    const std::string_view path = *one["path"].as_string();
    const JsonValue want = one["json"]["error"];
    const bool ours = path == "/v1/completions" || path == "/v1/chat/completions" || path == "/inference/v1/generate" ||
                      path == "/tokenize" || path == "/detokenize";
    if (!ours || want.is_null() || later.contains(name)) continue;
    RequestHeaders headers;
    std::string content_type = "application/json";
    for (const auto& [key, value] : one["headers"].members()) {
      if (key == "X-data-parallel-rank") headers.data_parallel_rank = std::stoi(std::string(*value.as_string()));
      if (key == "Content-Type") content_type = *value.as_string();
    }
    const JsonValue sent = one["body"];
    const std::string body = sent.is_string() ? std::string(*sent.as_string()) : sent.dump();
    const Answer got = ask(path, content_type, body, headers);
    ASSERT_TRUE(got.error) << name << " is not refused";
    EXPECT_EQ(got.error->status, *one["status"].as_int64()) << name;
    EXPECT_EQ(got.error->type, *want["type"].as_string()) << name;
    EXPECT_EQ(got.error->param, want["param"].as_string().value_or("")) << name;
    if (!free_text.contains(name)) {
      EXPECT_EQ(got.error->message, *want["message"].as_string()) << name;
    }
    ++compared;
  }
  EXPECT_GE(compared, 55);
}

TEST(Refusals, ValidatorsRunBeforeFieldsAndLastDeclaredFirst) {
  // A bad salt (declared first, so last), a bad stream option and a bad field type.
  const auto both =
      complete(R"({"prompt":"a","cache_salt":"","stream_options":{"include_usage":true},"temperature":"hot"})");
  EXPECT_EQ(both.error->param, "stream_options");
  EXPECT_EQ(complete(R"({"prompt":"a","cache_salt":"","temperature":"hot"})").error->param, "cache_salt");
  EXPECT_EQ(complete(R"({"prompt":"a","temperature":"hot"})").error->param, "body.temperature");
}

TEST(Refusals, WhatTheEngineWouldNoticeIsLazy) {
  EXPECT_TRUE(complete(R"({"prompt":"a","logprobs":30})").lazy);
  EXPECT_TRUE(complete(R"({"prompt":[49152]})").lazy);
  EXPECT_TRUE(complete(R"({"prompt":[[]]})").lazy);
  EXPECT_EQ(complete(R"({"prompt":[[]]})").error->message, "The decoder prompt cannot be empty");
  EXPECT_TRUE(complete(R"({"prompt":"a","stop_token_ids":[-1]})").lazy);
  EXPECT_FALSE(complete(R"({"prompt":"a","temperature":3})").lazy);
  EXPECT_FALSE(complete(R"({"prompt":"a","n":0})").lazy);
}

TEST(Refusals, ByName) {
  for (const char* field :
       {R"("use_beam_search":true)", R"("watermarking":true)", R"("kv_transfer_params":{})",
        R"("ec_transfer_params":{"a":1})", R"("structured_outputs":{"regex":"a"})",
        R"("response_format":{"type":"json_object"})", R"("prompt_embeds":"aa")", R"("thinking_token_budget":5)"}) {
    const std::string body = std::string(R"({"prompt":"a",)") + field + "}";
    EXPECT_TRUE(complete(body).error) << field;
  }
  EXPECT_FALSE(complete(R"({"prompt":"a","response_format":{"type":"text"},"vllm_xargs":{"a":1},"watermarking":false,
                            "thinking_token_budget":-1,"kv_transfer_params":null,"best_of":3})")
                   .error);
}

TEST(Refusals, OurAdditions) {
  EXPECT_EQ(complete(R"({"prompt":"a","logprobs_mode":"cooked"})").error->param, "logprobs_mode");
  EXPECT_EQ(complete(R"({"prompt":"a","return_kept_mass":true})").error->param, "return_kept_mass");
  EXPECT_FALSE(
      complete(R"({"prompt":"a","return_kept_mass":true,"logprobs":0,"logprobs_mode":"processed_logits"})").error);
  EXPECT_EQ(generate(R"({"token_ids":[1],"sampling_params":{"return_kept_mass":true}})").error->param,
            "return_kept_mass");
}

TEST(Refusals, Contradictions) {
  // "t" is one token; with the space it is two, so only the bare word is barred.
  const std::string t = std::to_string(FakeTokenizer::kFirstByte + 't');
  const std::string barred = R"({"prompt":"a","allowed_token_ids":[)" + t + R"(],"bad_words":["t"]})";
  EXPECT_EQ(complete(barred).error->param, "allowed_token_ids");
  EXPECT_EQ(complete(R"({"prompt":"a","allowed_token_ids":[2],"min_tokens":3})").error->param, "allowed_token_ids");
  EXPECT_FALSE(complete(R"({"prompt":"a","allowed_token_ids":[2,3],"min_tokens":3})").error);
  ServingConfig small = config();
  small.vocab_size = 4;
  EXPECT_TRUE(complete(R"({"prompt":[1],"stop_token_ids":[0,1,3],"min_tokens":3})", small).lazy);
  EXPECT_FALSE(complete(R"({"prompt":[1],"stop_token_ids":[0,1],"min_tokens":3})", small).error);
  small.eos_token_id = 9;  // a tokenizer may know more ids than the model
  EXPECT_FALSE(complete(R"({"prompt":[1],"stop_token_ids":[0,1,3],"min_tokens":3})", small).error);
}

TEST(Refusals, HostileBodiesStayBounded) {
  std::string many = R"({"token_ids":[)";
  for (int i = 0; i < 5000; ++i) many += "\"x\",";
  const auto answer = generate(many + R"("x"],"sampling_params":{}})");
  ASSERT_TRUE(answer.error);
  EXPECT_LT(answer.error->message.size(), 5000u);
  EXPECT_NE(answer.error->message.find("5001 validation errors:"), std::string::npos);
  EXPECT_NE(answer.error->message.find("...and 4991 more errors"), std::string::npos);
  const auto choices = complete(R"({"prompt":[[1],[2],[3],[4],[5],[6],[7],[8],[9]],"n":16384,"temperature":1})");
  EXPECT_EQ(choices.error->param, "n");
  EXPECT_TRUE(complete(R"({"prompt":"a","logit_bias":{"5":"nan"}})").error);
  EXPECT_TRUE(complete(R"({"prompt":"a","seed":1e300})").error);
  EXPECT_TRUE(generate(R"({"token_ids":[9223372036854775807],"sampling_params":{}})").error);
}

TEST(Refusals, PathsAndAddressesAreHidden) {
  EXPECT_EQ(sanitize_message(" The model `/home/me/models/x` is gone "), "The model `<path>` is gone");
  EXPECT_EQ(sanitize_message("<object at 0x7f00ab>"), "<object>");
  EXPECT_EQ(sanitize_message("see a/b/c.txt and 1/2"), "see a<path> and 1/2");
  EXPECT_EQ(sanitize_message("/v1/completions"), "/v1/completions");
}

TEST(Accepted, LaxTypesAndDefaults) {
  const auto document = JsonDocument::parse(
      R"({"model":"","prompt":"a","max_tokens":"4","temperature":"0.5","n":1.0,"stream":"yes","logprobs":true,"stop":"x"})");
  const auto request = parse_completion_request(document->root(), config());
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling.max_tokens, 4);
  EXPECT_TRUE(request->stream);
  EXPECT_EQ(request->sampling.logprobs, 1);
  ServingConfig with_defaults = config();
  with_defaults.defaults.top_k = 7;
  with_defaults.defaults.hard_max_tokens = 3;
  const auto prepared = prepare_completion(*request, {}, with_defaults);
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->prompts[0].params.top_k, 7);
  EXPECT_EQ(prepared->prompts[0].params.max_tokens, 3);
  EXPECT_FLOAT_EQ(prepared->prompts[0].params.temperature, 0.5f);
}

TEST(Accepted, TruncationAndClamping) {
  ServingConfig small = config();
  small.max_model_len = 8;
  const auto prompt = [&](const std::string& fields) {
    const auto document = JsonDocument::parse(R"({"prompt":[1,2,3,4,5,6,7,8,9,10],)" + fields + "}");
    auto prepared = prepare_completion(*parse_completion_request(document->root(), small), {}, small);
    EXPECT_TRUE(prepared.ok());
    return std::move((*prepared).prompts.at(0));
  };
  EXPECT_EQ(prompt(R"("max_tokens":8,"truncate_prompt_tokens":3)").token_ids, (std::vector<int32_t>{8, 9, 10}));
  EXPECT_EQ(prompt(R"("max_tokens":8,"truncate_prompt_tokens":3)").params.max_tokens, 5);
  EXPECT_EQ(prompt(R"("max_tokens":1,"truncate_prompt_tokens":3,"truncation_side":"right")").token_ids,
            (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(prompt(R"("max_tokens":1,"truncate_prompt_tokens":-1)").token_ids.size(), 7u);
}

TEST(Accepted, BiasIsClampedOnCompletionsAlone) {
  const auto completion = JsonDocument::parse(R"({"prompt":"a","logit_bias":{"5":150,"6":-1e9}})");
  const auto completed = prepare_completion(*parse_completion_request(completion->root(), config()), {}, config());
  EXPECT_EQ(completed->prompts[0].params.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{5, 100.0f}, {6, -100.0f}}));
  const auto generate = JsonDocument::parse(R"({"token_ids":[1],"sampling_params":{"logit_bias":{"5":150}}})");
  const auto generated = prepare_generate(*parse_generate_request(generate->root(), config()), {}, config());
  EXPECT_EQ(generated->prompts[0].params.logit_bias, (std::vector<std::pair<int32_t, float>>{{5, 150.0f}}));
}

TEST(Accepted, BadWordsAreBarredWithAndWithoutSpace) {
  const auto document = JsonDocument::parse(R"({"prompt":"a","bad_words":[" hi","hi","hi"]})");
  const auto prepared = prepare_completion(*parse_completion_request(document->root(), config()), {}, config());
  ASSERT_TRUE(prepared.ok());
  // With bytes for tokens the spaced form is longer, so the reference's rule leaves it out.
  EXPECT_EQ(prepared->prompts[0].params.bad_words_token_ids.size(), 2u);
}

TEST(Accepted, GenerateDoesNotTakeTheModelsDefaults) {
  ServingConfig with_defaults = config();
  with_defaults.defaults.temperature = 0.3;
  const auto document = JsonDocument::parse(R"({"token_ids":[1,2,3],"sampling_params":{}})");
  const auto prepared = prepare_generate(*parse_generate_request(document->root(), with_defaults), {}, with_defaults);
  ASSERT_TRUE(prepared.ok());
  EXPECT_FLOAT_EQ(prepared->prompts[0].params.temperature, 1.0f);
  EXPECT_EQ(prepared->prompts[0].params.max_tokens, 4093);
}

}  // namespace
}  // namespace unspool
