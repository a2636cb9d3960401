// What a request says depends on nothing but itself: the same tokens and log-probs, bit for bit, however it is
// scheduled.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core_harness.h"

namespace unspool {
namespace {

EngineConfig with(int num_blocks, int block_size, int chunk, int max_num_seqs = 256) {
  EngineConfig config = CoreHarness::roomy();
  config.num_blocks = num_blocks;
  config.block_size = block_size;
  config.max_num_batched_tokens = chunk;
  config.max_num_seqs = max_num_seqs;
  return config;
}

// A mix that uses everything: lengths, forks, prompt log-probs, penalties, shared prefixes.
std::vector<EngineRequest> mixed_requests(int count) {
  std::vector<EngineRequest> requests;
  const auto prefix = random_prompt(40, 99);
  for (int i = 0; i < count; ++i) {
    auto prompt = random_prompt(1 + i * 7 % 50, i);
    if (i % 3 == 0) prompt.insert(prompt.begin(), prefix.begin(), prefix.begin() + (i * 5) % 41);
    auto request = request_of(std::move(prompt), 5 + i % 30, i);
    if (i % 4 == 1) request.params.n = 3;
    if (i % 5 == 2) request.params.prompt_logprobs = 1;
    if (i % 2 == 1) request.params.frequency_penalty = 0.5f;
    if (i % 7 == 3) request.params.temperature = 0.0f;
    if (request.params.temperature == 0.0f) request.params.n = 1;
    requests.push_back(std::move(request));
  }
  return requests;
}

class Invariance : public ::testing::TestWithParam<EngineConfig> {};

TEST_P(Invariance, EachRequestSaysWhatItSaysAlone) {
  const auto requests = mixed_requests(32);
  CoreHarness harness(GetParam());
  std::vector<Record> together(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    harness.add(together[i], requests[i]);
    if (i % 5 == 0) harness.core.step();
  }
  harness.run();
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    Record want = alone(requests[i]);
    expect_same(together[i], want);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Invariance,
                         ::testing::Values(with(1000, 8, 512), with(1000, 8, 1), with(1000, 16, 16), with(1000, 8, 64),
                                           with(500, 128, 257), with(20, 8, 32), with(16, 8, 512), with(40, 8, 16, 2),
                                           with(60, 8, 16, 4), with(1000, 8, 512, 1)));

TEST(InvarianceWithoutPrefixCache, Holds) {
  for (const bool caching : {true, false}) {
    EngineConfig config = with(20, 8, 24);
    config.enable_prefix_caching = caching;
    CoreHarness harness(config);
    const auto requests = mixed_requests(16);
    std::vector<Record> records(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) harness.add(records[i], requests[i]);
    harness.run();
    for (size_t i = 0; i < requests.size(); ++i) {
      Record want = alone(requests[i]);
      expect_same(records[i], want);
    }
  }
}

TEST(PrefixHits, ColdWarmAndPartialSayTheSame) {
  CoreHarness harness;
  const auto prompt = random_prompt(50, 3);
  auto half = prompt;
  half.resize(30);
  Record cold, warm, partial, salted, skipped, scored;
  harness.add(cold, request_of(prompt));
  harness.run();
  harness.add(warm, request_of(prompt));
  harness.add(partial, request_of(half));
  auto with_salt = request_of(prompt);
  with_salt.cache_salt = "other";
  harness.add(salted, with_salt);
  auto skipping = request_of(prompt);
  skipping.params.skip_reading_prefix_cache = true;
  harness.add(skipped, skipping);
  auto scoring = request_of(prompt);
  scoring.params.prompt_logprobs = 0;
  harness.add(scored, scoring);
  harness.run();
  EXPECT_EQ(cold.num_cached_tokens, 0);
  EXPECT_EQ(warm.num_cached_tokens, 48);
  EXPECT_EQ(partial.num_cached_tokens, 24);
  EXPECT_EQ(salted.num_cached_tokens, 0);
  EXPECT_EQ(skipped.num_cached_tokens, 0);
  EXPECT_EQ(scored.num_cached_tokens, 0);
  for (Record* record : {&warm, &salted, &skipped}) expect_same(*record, cold);
  expect_same(scored.samples[0], cold.samples[0]);
  Record want = alone(request_of(half));
  expect_same(partial, want);
  Record salted_again;
  harness.add(salted_again, with_salt);
  harness.run();
  EXPECT_EQ(salted_again.num_cached_tokens, 48);
  expect_same(salted_again, cold);
}

TEST(PrefixHits, SurviveEvictionOfTheirTail) {
  CoreHarness harness(with(12, 8, 512));
  const auto prompt = random_prompt(60, 3);
  Record first, other, again;
  harness.add(first, request_of(prompt, 4));
  harness.run();
  harness.add(other, request_of(random_prompt(40, 4), 4));
  harness.run();
  harness.add(again, request_of(prompt, 4));
  harness.run();
  EXPECT_GT(again.num_cached_tokens, 0);
  EXPECT_LT(again.num_cached_tokens, 56);
  expect_same(again, first);
}

TEST(Forks, EightSamplesSayWhatEightRequestsSay) {
  for (const int prompt_length : {1, 8, 13, 40}) {
    for (const int num_blocks : {1000, 14}) {
      SCOPED_TRACE(fmt::format("prompt {} blocks {}", prompt_length, num_blocks));
      const auto prompt = random_prompt(prompt_length, 8);
      CoreHarness harness(with(num_blocks, 8, 16, 5));
      auto request = request_of(prompt, 20, 100);
      request.params.n = 8;
      Record together;
      harness.add(together, request);
      harness.run();
      ASSERT_EQ(together.samples.size(), 8u);
      for (int i = 0; i < 8; ++i) {
        Record single = alone(request_of(prompt, 20, 100 + i));
        expect_same(together.samples[i], single.samples[0]);
      }
      if (num_blocks == 1000) {
        EXPECT_LE(harness.executor.num_tokens, prompt_length + 8 * 19 + 3 * 8);
      }
    }
  }
}

TEST(Preemption, HappensAndChangesNothing) {
  CoreHarness harness(with(10, 8, 512));
  std::vector<Record> records(8);
  std::vector<EngineRequest> requests;
  for (int i = 0; i < 8; ++i) {
    auto request = request_of(random_prompt(4, i), 70, i);
    request.params.presence_penalty = 0.3f;
    request.params.min_tokens = 30;
    request.params.stop_token_ids = {1, 2, 3};
    if (i % 2 == 0) request.params.prompt_logprobs = 1;
    requests.push_back(request);
    harness.add(records[i], request);
  }
  harness.run();
  EXPECT_EQ(harness.metrics.text().find("vllm:num_preemptions_total{engine=\"0\",model_name=\"\"} 0.0"),
            std::string::npos);
  for (int i = 0; i < 8; ++i) {
    Record want = alone(requests[i]);
    expect_same(records[i], want);
  }
}

TEST(PromptLogprobs, AreThoseOfTheSampledTokens) {
  const auto prompt = random_prompt(20, 5);
  auto sampled = request_of(prompt, 30, 3);
  sampled.params.logprobs = 0;
  Record drawn = alone(sampled);
  auto scored_prompt = prompt;
  scored_prompt.insert(scored_prompt.end(), drawn.samples[0].token_ids.begin(), drawn.samples[0].token_ids.end());
  for (const int chunk : {1, 7, 512}) {
    CoreHarness harness(with(1000, 8, chunk));
    auto scoring = request_of(scored_prompt, 1);
    scoring.params.prompt_logprobs = 0;
    Record scored;
    harness.add(scored, scoring);
    harness.run();
    ASSERT_TRUE(scored.prompt_logprobs);
    ASSERT_EQ(scored.prompt_logprobs->size(), scored_prompt.size());
    EXPECT_TRUE(scored.prompt_logprobs->front().empty());
    const std::vector<PositionLogprobs> tail(scored.prompt_logprobs->end() - 30, scored.prompt_logprobs->end());
    EXPECT_TRUE(same_logprobs(tail, drawn.samples[0].logprobs));
  }
}

TEST(Seeds, UnseededRequestsDifferAndRepeatWithTheEngine) {
  std::vector<std::vector<int32_t>> runs[2];
  for (auto& run : runs) {
    CoreHarness harness;
    Record records[3];
    for (auto& record : records) {
      auto request = request_of(random_prompt(4, 1), 16);
      request.params.seed.reset();
      harness.add(record, request);
    }
    harness.run();
    for (auto& record : records) run.push_back(record.samples[0].token_ids);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0][0], runs[0][1]);
  EXPECT_NE(runs[0][1], runs[0][2]);
}

}  // namespace
}  // namespace unspool
