// Every field with every kind of value: an answer, never a throw; what is accepted is within bounds.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_tokenizer.h"
#include "protocol/prepared_request.h"
#include "protocol/tokenize_api.h"

namespace unspool {
namespace {

const std::vector<std::string> kFields = {"model",
                                          "prompt",
                                          "echo",
                                          "frequency_penalty",
                                          "logit_bias",
                                          "logprobs",
                                          "max_tokens",
                                          "n",
                                          "presence_penalty",
                                          "seed",
                                          "stop",
                                          "stream",
                                          "stream_options",
                                          "suffix",
                                          "temperature",
                                          "top_p",
                                          "use_beam_search",
                                          "top_k",
                                          "min_p",
                                          "repetition_penalty",
                                          "watermarking",
                                          "length_penalty",
                                          "stop_token_ids",
                                          "include_stop_str_in_output",
                                          "ignore_eos",
                                          "min_tokens",
                                          "skip_special_tokens",
                                          "spaces_between_special_tokens",
                                          "truncate_prompt_tokens",
                                          "truncation_side",
                                          "allowed_token_ids",
                                          "prompt_logprobs",
                                          "logprob_token_ids",
                                          "bad_words",
                                          "prompt_embeds",
                                          "add_special_tokens",
                                          "response_format",
                                          "structured_outputs",
                                          "priority",
                                          "request_id",
                                          "session_id",
                                          "return_tokens_as_token_ids",
                                          "return_token_ids",
                                          "routed_experts_prompt_start",
                                          "cache_salt",
                                          "kv_transfer_params",
                                          "ec_transfer_params",
                                          "vllm_xargs",
                                          "repetition_detection",
                                          "thinking_token_budget",
                                          "stream_interval",
                                          "logprobs_mode",
                                          "return_kept_mass",
                                          "token_ids",
                                          "sampling_params",
                                          "output_mode",
                                          "detokenize",
                                          "features",
                                          "reasoning_parser_kwargs",
                                          "prompt_logprob_token_ids",
                                          "skip_reading_prefix_cache",
                                          "tokens",
                                          "messages",
                                          "return_token_strs"};

const std::vector<std::string> kValues = {"null",
                                          "true",
                                          "false",
                                          "0",
                                          "1",
                                          "-1",
                                          "2",
                                          "-2",
                                          "7",
                                          "1.0",
                                          "0.5",
                                          "-0.5",
                                          "1e300",
                                          "-1e300",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "18446744073709551615",
                                          R"("")",
                                          R"("5")",
                                          R"("nan")",
                                          R"("-inf")",
                                          R"("é🙂")",
                                          R"(" ")",
                                          "[]",
                                          "[0]",
                                          "[-1]",
                                          "[383]",
                                          "[9223372036854775807]",
                                          R"(["a"])",
                                          R"([""])",
                                          "[[]]",
                                          "[[1,2],[3]]",
                                          "[null]",
                                          "[1.5]",
                                          "{}",
                                          R"({"1":1})",
                                          R"({"1":"nan"})",
                                          R"({"-1":5})",
                                          R"({"3":1e300})",
                                          "1e-300",
                                          R"({"x":{}})",
                                          R"({"type":"json_schema"})",
                                          R"({"max_pattern_size":9999999999,"min_count":9999999999})",
                                          R"({"include_usage":true})"};

ServingConfig config() {
  ServingConfig config;
  config.served_model_names = {"m"};
  config.max_model_len = 64;
  config.vocab_size = 384;
  config.tokenizer = std::make_shared<FakeTokenizer>();
  return config;
}

void expect_sane(const ApiResult<PreparedRequest>& prepared, const std::string& body) {
  if (!prepared.ok() || prepared->lazy_error) return;
  for (const PreparedPrompt& prompt : prepared->prompts) {
    const SamplingParams& p = prompt.params;
    EXPECT_FALSE(prompt.token_ids.empty()) << body;
    for (const int32_t id : prompt.token_ids) EXPECT_TRUE(id >= 0 && id < 384) << body;
    EXPECT_TRUE(p.n >= 1 && p.max_tokens >= 1 && p.min_tokens >= 0 && p.min_tokens <= p.max_tokens) << body;
    EXPECT_TRUE(p.temperature >= 0 && p.temperature <= 2 && p.top_p > 0 && p.top_p <= 1) << body;
    EXPECT_TRUE(std::isfinite(p.repetition_penalty) && p.repetition_penalty > 0) << body;
    for (const auto& [id, bias] : p.logit_bias) EXPECT_TRUE(id >= 0 && id < 384 && std::isfinite(bias)) << body;
    if (p.allowed_token_ids) {
      for (const int32_t id : *p.allowed_token_ids) EXPECT_TRUE(id >= 0 && id < 384) << body;
    }
    for (const int32_t id : p.stop_token_ids) EXPECT_TRUE(id >= 0 && id < 384) << body;
    for (const std::string& stop : p.stop) EXPECT_FALSE(stop.empty()) << body;
  }
}

void try_body(const std::string& body) {
  const auto document = JsonDocument::parse(body);
  ASSERT_TRUE(document.ok()) << body;
  const ServingConfig c = config();
  const auto completion = parse_completion_request(document->root(), c);
  if (completion.ok()) expect_sane(prepare_completion(*completion, {}, c), body);
  const auto generate = parse_generate_request(document->root(), c);
  if (generate.ok()) expect_sane(prepare_generate(*generate, {}, c), body);
  (void)tokenize(document->root(), c);
  (void)detokenize(document->root(), c);
  (void)parse_abort_request(body);
}

TEST(HostileValues, EveryFieldTakesOrRefusesEveryValue) {
  for (const std::string& field : kFields) {
    for (const std::string& value : kValues) {
      const std::string member = "\"" + field + "\":" + value;
      try_body(R"({"prompt":[1,2,3],)" + member + "}");
      try_body(R"({"prompt":[[1],[2]],"temperature":1,"n":2,"stream":true,"logprobs":1,)" + member + "}");
      try_body(R"({"token_ids":[1,2],"sampling_params":{)" + member + "}}");
      try_body(R"({"token_ids":[1,2],"sampling_params":{},)" + member + "}");
    }
  }
}

TEST(HostileValues, BodiesThatAreNoObjects) {
  for (const std::string& value : kValues) try_body(value);
}

}  // namespace
}  // namespace unspool
