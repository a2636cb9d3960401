// Each logits processor against values worked out by hand, seen through greedy processed logits (after step 7).
#include "fixture.h"

namespace unspool {
namespace {

using Values = std::vector<float>;

Values processed(const Values& logits, const SamplingParams& params, const Draw& draw = {}) {
  return values_of(logits, params, LogprobsMode::kProcessedLogits, draw);
}

TEST(Processors, NoneLeavesTheLogits) {
  EXPECT_EQ(processed({1.0f, -2.0f, 0.5f}, greedy_params()), (Values{1.0f, -2.0f, 0.5f}));
}

TEST(Processors, AllowedTokenIdsMaskTheRest) {
  SamplingParams params = greedy_params();
  params.allowed_token_ids = {2, 0, 2};
  EXPECT_EQ(processed({1.0f, 9.0f, 0.5f, 4.0f}, params), (Values{1.0f, -kInfinity, 0.5f, -kInfinity}));
  EXPECT_EQ(sample_row(Values{1.0f, 9.0f, 0.5f, 4.0f}, params).token_id, 0);
}

TEST(Processors, LogitBiasAdds) {
  SamplingParams params = greedy_params();
  params.logit_bias = {{0, 100.0f}, {2, -3.5f}};
  EXPECT_EQ(processed({1.0f, 2.0f, 0.5f}, params), (Values{101.0f, 2.0f, -3.0f}));
}

TEST(Processors, BiasDoesNotLiftWhatIsNotAllowed) {
  SamplingParams params = greedy_params();
  params.allowed_token_ids = {1};
  params.logit_bias = {{0, 100.0f}};
  EXPECT_EQ(processed({1.0f, 2.0f}, params), (Values{-kInfinity, 2.0f}));
}

TEST(Processors, MinTokensBarsEveryStopTokenEvenUnderIgnoreEos) {
  SamplingParams params = greedy_params();
  params.min_tokens = 2;
  params.ignore_eos = true;
  params.eos_token_id = 0;
  params.extra_eos_token_ids = {1};
  params.stop_token_ids = {2};
  params.logit_bias = {{2, 100.0f}};  // comes before, so it cannot lift the bar
  const Values logits = {1.0f, 2.0f, 3.0f, 0.0f};
  const Values barred = {-kInfinity, -kInfinity, -kInfinity, 0.0f};
  EXPECT_EQ(processed(logits, params), barred);
  EXPECT_EQ(processed(logits, params, {.prompt = {3, 3, 3}, .output = {3}}), barred);
  EXPECT_EQ(processed(logits, params, {.output = {3, 3}}), (Values{1.0f, 2.0f, 103.0f, 0.0f}));
}

TEST(Processors, RepetitionDividesAboveZeroAndMultipliesElsewhere) {
  SamplingParams params = greedy_params();
  params.repetition_penalty = 2.0f;
  // 0 in the prompt, 1 in the output, 2 in both (once is enough), 3 in neither.
  EXPECT_EQ(processed({4.0f, -4.0f, 3.0f, 4.0f}, params, {.prompt = {0, 2, 0}, .output = {1, 2, 1}}),
            (Values{2.0f, -8.0f, 1.5f, 4.0f}));
}

TEST(Processors, FrequencyCountsTheOutputAlone) {
  SamplingParams params = greedy_params();
  params.frequency_penalty = 0.5f;
  EXPECT_EQ(processed({4.0f, 4.0f, 4.0f}, params, {.prompt = {0, 1}, .output = {1, 2, 2, 2}}),
            (Values{4.0f, 3.5f, 2.5f}));
}

TEST(Processors, PresenceCountsTheOutputOnce) {
  SamplingParams params = greedy_params();
  params.presence_penalty = -1.5f;
  EXPECT_EQ(processed({4.0f, 4.0f, 4.0f}, params, {.prompt = {0, 1}, .output = {1, 2, 2, 2}}),
            (Values{4.0f, 5.5f, 5.5f}));
}

TEST(Processors, RepetitionComesBeforeFrequencyAndPresence) {
  SamplingParams params = greedy_params();
  params.repetition_penalty = 2.0f;
  params.frequency_penalty = 0.25f;
  params.presence_penalty = 1.0f;
  EXPECT_EQ(processed({8.0f, 8.0f, 8.0f}, params, {.prompt = {0}, .output = {1, 1}}), (Values{4.0f, 2.5f, 8.0f}));
}

TEST(Processors, PenaltiesFollowTheBias) {
  SamplingParams params = greedy_params();
  params.logit_bias = {{0, 3.0f}};
  params.repetition_penalty = 2.0f;
  EXPECT_EQ(processed({-1.0f, 0.0f}, params, {.output = {0}}), (Values{1.0f, 0.0f}));
}

TEST(Processors, BadWordsBarTheLastTokenAfterTheFirstOnes) {
  SamplingParams params = greedy_params();
  params.bad_words_token_ids = {{3}, {0, 1, 2}, {1, 0}, {}};
  const Values logits = {1.0f, 1.0f, 1.0f, 1.0f};
  EXPECT_EQ(processed(logits, params), (Values{1.0f, 1.0f, 1.0f, -kInfinity}));
  EXPECT_EQ(processed(logits, params, {.prompt = {0, 1}}), (Values{1.0f, 1.0f, 1.0f, -kInfinity}));
  EXPECT_EQ(processed(logits, params, {.output = {2, 0, 1}}), (Values{-kInfinity, 1.0f, -kInfinity, -kInfinity}));
  EXPECT_EQ(processed(logits, params, {.output = {0, 1, 1}}), (Values{-kInfinity, 1.0f, 1.0f, -kInfinity}));
}

TEST(Processors, IdsOutsideOfTheVocabularyArePassedOver) {
  SamplingParams params = greedy_params();
  params.logit_bias = {{-1, 5.0f}, {3, 5.0f}};
  params.min_tokens = 4;
  params.stop_token_ids = {-7, 1 << 30};
  params.repetition_penalty = 1.5f;
  params.bad_words_token_ids = {{99}};
  EXPECT_EQ(processed({1.0f, 2.0f, 3.0f}, params, {.prompt = {-5, 77}, .output = {3}}), (Values{1.0f, 2.0f, 3.0f}));
  params.allowed_token_ids = {1, 3, -1};
  EXPECT_EQ(processed({1.0f, 2.0f, 3.0f}, params), (Values{-kInfinity, 2.0f, -kInfinity}));
}

TEST(Processors, AMaskComesBeforeAllAndShowsInRawValuesToo) {
  const Values logits = {1.0f, 9.0f, 0.5f, 4.0f};
  const Draw draw = {.allowed = {0b0101}};
  const Values masked = {1.0f, -kInfinity, 0.5f, -kInfinity};
  EXPECT_EQ(values_of(logits, greedy_params(), LogprobsMode::kRawLogits, draw), masked);
  EXPECT_EQ(processed(logits, greedy_params(), draw), masked);
  EXPECT_EQ(sample_row(logits, greedy_params(), draw).token_id, 0);
  SamplingParams params = greedy_params();
  params.logit_bias = {{1, 100.0f}, {2, 1.0f}};  // cannot lift the mask
  EXPECT_EQ(processed(logits, params, draw), (Values{1.0f, -kInfinity, 1.5f, -kInfinity}));
  // Raw log-probs are those of the tokens that are left.
  const Values logprobs = values_of(logits, greedy_params(), LogprobsMode::kRawLogprobs, draw);
  EXPECT_NEAR(std::exp(logprobs[0]) + std::exp(logprobs[2]), 1.0, 1e-6);
  EXPECT_EQ(logprobs[1], -kInfinity);
}

TEST(Processors, AMaskOfManyWordsEndsWithTheVocabulary) {
  Values logits(70, 1.0f);
  logits[69] = 3.0f;
  logits[68] = 9.0f;
  const Draw draw = {.allowed = {0, 0xFFFFFFFF, 0b100000}};
  EXPECT_EQ(sample_row(logits, greedy_params(), draw).token_id, 69);
}

TEST(Processors, AMaskedRowIsNotWhatIsKnownOfTheWholeOne) {
  const Values logits = {1.0f, 9.0f, 0.5f, 4.0f};
  const VocabKernels& kernels = reference_vocab_kernels();
  std::vector<BlockStat> blocks(1);
  kernels.block_stats(logits.data(), 4, blocks.data());
  Sampler sampler(kernels, 4);
  sampler.reserve(1);
  const std::vector<uint32_t> allowed = {0b0101};
  for (const LogprobsMode mode : {LogprobsMode::kRawLogprobs, LogprobsMode::kProcessedLogprobs}) {
    SamplingParams params;
    params.logprobs = -1;
    params.logprobs_mode = mode;
    const SampleTask task = {.logits = logits,
                             .params = &params,
                             .prompt_token_ids = {},
                             .output_token_ids = {},
                             .seed = 1,
                             .position = 0,
                             .blocks = blocks,
                             .allowed = allowed};
    const SampleResult result = sampler.sample(task, 0);
    EXPECT_TRUE(result.token_id == 0 || result.token_id == 2);
    double mass = 0;
    for (const TokenLogprob& entry : result.logprobs) mass += std::exp(entry.logprob);
    EXPECT_NEAR(mass, 1.0, 1e-6);
  }
}

TEST(Processors, AMaskHidesNothingThatIsNotFinite) {
  SampleResult result =
      sample_row(Values{1.0f, std::numeric_limits<float>::quiet_NaN()}, greedy_params(), {.allowed = {1}});
  EXPECT_FALSE(result.finite);
  EXPECT_FALSE(result.barred) << "the model's fault";
  result = sample_row(Values{1.0f, 2.0f}, greedy_params(), {.allowed = {0}});
  EXPECT_FALSE(result.finite);
  EXPECT_TRUE(result.barred) << "the request's";
}

TEST(Processors, MinTokensGivesWayWhereAMaskLeavesOnlyStopTokens) {
  SamplingParams params = greedy_params();
  params.min_tokens = 2;
  params.eos_token_id = 0;
  params.stop_token_ids = {1, 1};
  const Values logits = {1.0f, 2.0f, 3.0f};
  EXPECT_EQ(processed(logits, params, {.allowed = {0b011}}), (Values{1.0f, 2.0f, -kInfinity}));
  EXPECT_EQ(processed(logits, params, {.allowed = {0b101}}), (Values{-kInfinity, -kInfinity, 3.0f}));
}

TEST(Processors, TemperatureFollowsThemAll) {
  SamplingParams params;
  params.temperature = 0.5f;
  params.logit_bias = {{0, 1.0f}};
  params.presence_penalty = 2.0f;
  EXPECT_EQ(processed({1.0f, 3.0f, 0.0f}, params, {.output = {1}}), (Values{4.0f, 2.0f, 0.0f}));
}

}  // namespace
}  // namespace unspool
