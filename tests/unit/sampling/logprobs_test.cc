// Which values are reported, of which tokens, at which ranks.
#include <algorithm>

#include "fixture.h"
#include "oracle.h"

namespace unspool {
namespace {

using Values = std::vector<float>;

constexpr LogprobsMode kModes[] = {LogprobsMode::kRawLogprobs, LogprobsMode::kRawLogits,
                                   LogprobsMode::kProcessedLogprobs, LogprobsMode::kProcessedLogits};

struct Entry {
  int32_t id;
  int32_t rank;
  bool operator==(const Entry&) const = default;
};
void PrintTo(const Entry& entry, std::ostream* out) {
  *out << entry.id << "#" << entry.rank;
}

std::vector<Entry> entries(const PositionLogprobs& logprobs) {
  std::vector<Entry> result;
  for (const TokenLogprob& entry : logprobs) result.push_back({entry.token_id, entry.rank});
  return result;
}

PositionLogprobs prompt_row(const Values& logits, int32_t token_id, int count,
                            LogprobsMode mode = LogprobsMode::kRawLogprobs) {
  Sampler sampler(reference_vocab_kernels(), static_cast<int>(logits.size()));
  sampler.reserve(1);
  return sampler.prompt_logprobs({logits, token_id, count, mode}, 0);
}

TEST(Logprobs, TheFourModesOfASampledRow) {
  const Values logits = {2.0f, 1.0f, 0.0f, -1.0f};
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 2;
  params.logit_bias = {{1, 0.5f}};
  EXPECT_EQ(values_of(logits, params, LogprobsMode::kRawLogits), logits);
  EXPECT_EQ(values_of(logits, params, LogprobsMode::kProcessedLogits), (Values{4.0f, 3.0f, -kInfinity, -kInfinity}));
  const Values raw = values_of(logits, params, LogprobsMode::kRawLogprobs);
  for (int id = 0; id < 4; ++id) EXPECT_NEAR(raw[id], logits[id] - oracle::log_sum_exp(logits), 1e-6);
  const Values processed = values_of(logits, params, LogprobsMode::kProcessedLogprobs);
  const double log_sum = 4.0 + std::log1p(std::exp(-1.0));
  EXPECT_NEAR(processed[0], 4.0 - log_sum, 1e-6);
  EXPECT_NEAR(processed[1], 3.0 - log_sum, 1e-6);
  EXPECT_EQ(processed[2], -kInfinity);
}

TEST(Logprobs, GreedyProcessedStopsBeforeTemperatureAndTruncation) {
  const Values logits = {2.0f, 1.0f, 0.0f};
  SamplingParams params = greedy_params();
  params.top_k = 1;
  params.logit_bias = {{2, 5.0f}};
  const Values biased = {2.0f, 1.0f, 5.0f};
  EXPECT_EQ(values_of(logits, params, LogprobsMode::kProcessedLogits), biased);
  EXPECT_EQ(values_of(logits, params, LogprobsMode::kRawLogits), logits);
  const Values processed = values_of(logits, params, LogprobsMode::kProcessedLogprobs);
  for (int id = 0; id < 3; ++id) EXPECT_NEAR(processed[id], biased[id] - oracle::log_sum_exp(biased), 1e-6);
}

TEST(Logprobs, WithoutProcessingAllFourAgree) {
  const Values logits = {2.0f, 1.0f, 0.0f, -kInfinity};
  for (const SamplingParams& params : {SamplingParams{}, greedy_params()}) {
    EXPECT_EQ(values_of(logits, params, LogprobsMode::kRawLogprobs),
              values_of(logits, params, LogprobsMode::kProcessedLogprobs));
    EXPECT_EQ(values_of(logits, params, LogprobsMode::kRawLogits),
              values_of(logits, params, LogprobsMode::kProcessedLogits));
  }
}

TEST(Logprobs, ArgmaxTakesTheLowestIdOfATie) {
  Values logits(700, 1.0f);
  logits[301] = logits[300] = logits[600] = 2.0f;
  EXPECT_EQ(sample_row(logits, greedy_params()).token_id, 300);
}

TEST(Logprobs, NoneUnlessAskedFor) {
  EXPECT_TRUE(sample_row(Values{1.0f, 2.0f}, {}).logprobs.empty());
}

TEST(Logprobs, TheSampledTokenComesFirstAndOnce) {
  const Values logits = {1.0f, 3.0f, 2.0f, 0.0f};
  SamplingParams params = greedy_params();
  params.logprobs = 0;
  EXPECT_EQ(entries(sample_row(logits, params).logprobs), (std::vector<Entry>{{1, 1}}));
  params.logprobs = 2;
  EXPECT_EQ(entries(sample_row(logits, params).logprobs), (std::vector<Entry>{{1, 1}, {2, 2}}));
  EXPECT_EQ(entries(prompt_row(logits, 3, 2)), (std::vector<Entry>{{3, 4}, {1, 1}, {2, 2}}));
  EXPECT_EQ(entries(prompt_row(logits, 2, -1)), (std::vector<Entry>{{2, 2}, {1, 1}, {0, 3}, {3, 4}}));
  EXPECT_EQ(entries(prompt_row(logits, 2, 50)), (std::vector<Entry>{{2, 2}, {1, 1}, {0, 3}, {3, 4}}));
}

TEST(Logprobs, RanksCountTies) {
  const Values logits = {1.0f, 3.0f, 1.0f, 3.0f, 1.0f, 0.0f};
  EXPECT_EQ(entries(prompt_row(logits, 4, 3)), (std::vector<Entry>{{4, 5}, {1, 2}, {3, 2}, {0, 5}}));
}

TEST(Logprobs, WhatTruncationRemovedComesLastById) {
  const Values logits = {1.0f, 3.0f, 2.0f, 4.0f, 5.0f};
  SamplingParams params;
  params.top_k = 2;
  params.logprobs = 4;
  params.logprobs_mode = LogprobsMode::kProcessedLogprobs;
  PositionLogprobs got = sample_row(logits, params).logprobs;
  std::sort(got.begin(), got.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  std::stable_sort(got.begin() + 2, got.end(), [](const auto& a, const auto& b) { return a.token_id < b.token_id; });
  EXPECT_EQ(entries(got), (std::vector<Entry>{{4, 1}, {3, 2}, {0, 5}, {1, 5}}));
  EXPECT_EQ(got[2].logprob, -kInfinity);
}

TEST(Logprobs, TiesAtTheCutRankAsTheyAreScored) {
  SamplingParams params;
  params.top_k = 2;
  params.logprobs = -1;
  params.logprobs_mode = LogprobsMode::kProcessedLogits;
  for (const TokenLogprob& entry : sample_row(Values{1.0f, 1.0f, 1.0f, 0.0f}, params).logprobs) {
    EXPECT_EQ(entry.rank, entry.token_id < 2 ? 2 : 4);
  }
}

TEST(Logprobs, NamedIdsReplaceTheBest) {
  const Values logits = {1.0f, 3.0f, 2.0f, 0.0f};
  SamplingParams params = greedy_params();
  params.logprobs = 1;
  params.logprob_token_ids = {3, 0, 1, 3, 99, -1};
  EXPECT_EQ(entries(sample_row(logits, params).logprobs), (std::vector<Entry>{{1, 1}, {3, 4}, {0, 3}}));
}

TEST(Logprobs, PromptModesAreRaw) {
  const Values logits = {1.0f, 3.0f, 2.0f};
  EXPECT_EQ(prompt_row(logits, 0, 0, LogprobsMode::kRawLogits)[0].logprob, 1.0f);
  EXPECT_EQ(prompt_row(logits, 0, 0, LogprobsMode::kProcessedLogits)[0].logprob, 1.0f);
  EXPECT_EQ(prompt_row(logits, 0, 0, LogprobsMode::kProcessedLogprobs)[0].logprob, prompt_row(logits, 0, 0)[0].logprob);
}

// A confident token's log-prob lies below the spacing of floats at the maximum: (x - m) - log l keeps it.
TEST(Logprobs, ConfidentTokensKeepTheirDigits) {
  const Values logits = {60.0f, 50.0f};
  EXPECT_NEAR(prompt_row(logits, 0, 0)[0].logprob, -std::log1p(std::exp(-10.0)), 1e-7);  // floats at 60: 4e-6 apart
}

TEST(Logprobs, EqualTheOracleOnRandomRows) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 400; ++i) {
    const int vocab_size = 1 + static_cast<int>(random() % (i % 10 == 0 ? 20'000 : 600));
    const Values logits = oracle::random_logits(random, vocab_size);
    const auto token_id = static_cast<int32_t>(random() % vocab_size);
    const int count = static_cast<int>(random() % 30);
    const PositionLogprobs got = prompt_row(logits, token_id, count);
    const double log_sum = oracle::log_sum_exp(logits);
    ASSERT_EQ(got[0].token_id, token_id);
    std::vector<int32_t> order = oracle::truncate(logits, greedy_params()).order;
    order.resize(std::min<size_t>(count, order.size()));
    std::erase(order, token_id);
    ASSERT_EQ(got.size(), 1 + order.size());
    for (size_t j = 0; j < got.size(); ++j) {
      if (j > 0) {
        ASSERT_EQ(got[j].token_id, order[j - 1]) << "row " << i << " place " << j;
      }
      const float x = logits[got[j].token_id];
      ASSERT_EQ(got[j].rank, oracle::rank(logits, got[j].token_id));
      if (x == -kInfinity) {
        ASSERT_EQ(got[j].logprob, -kInfinity);
      } else {
        ASSERT_NEAR(got[j].logprob, x - log_sum, 2e-6 * (1.0 + std::abs(x - log_sum)));
        ASSERT_LE(got[j].logprob, 0.0f);
      }
    }
  }
}

TEST(Logprobs, EveryModeIsOfTheSameDraw) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 100; ++i) {
    const Values logits = oracle::random_logits(random, 700);
    SamplingParams params = oracle::random_truncation(random, 700);
    const Draw draw = {.seed = random()};
    const int32_t token = sample_row(logits, params, draw).token_id;
    params.logprobs = 1;
    for (const LogprobsMode mode : kModes) {
      params.logprobs_mode = mode;
      EXPECT_EQ(sample_row(logits, params, draw).token_id, token);
    }
  }
}

}  // namespace
}  // namespace unspool
