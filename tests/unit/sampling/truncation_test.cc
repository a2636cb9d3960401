#include <algorithm>

#include "fixture.h"
#include "oracle.h"
#include "sampling/philox.h"

namespace unspool {
namespace {

using Values = std::vector<float>;

std::vector<int32_t> kept(const Values& logits, const SamplingParams& params) {
  const Values values = values_of(logits, params, LogprobsMode::kProcessedLogits);
  std::vector<int32_t> ids;
  for (size_t id = 0; id < values.size(); ++id) {
    if (values[id] != -kInfinity) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

using Ids = std::vector<int32_t>;

TEST(Truncation, TopKKeepsExactlyKAndDropsTiesByHigherId) {
  SamplingParams params;
  params.top_k = 3;
  EXPECT_EQ(kept({1.0f, 5.0f, 1.0f, 1.0f, 4.0f}, params), (Ids{0, 1, 4}));
  EXPECT_EQ(kept({2.0f, 2.0f, 2.0f, 2.0f}, params), (Ids{0, 1, 2}));
  params.top_k = 4;
  EXPECT_EQ(kept({2.0f, 2.0f, 2.0f, 2.0f}, params), (Ids{0, 1, 2, 3}));
  params.top_k = 1'000'000;
  EXPECT_EQ(kept({2.0f, 1.0f}, params), (Ids{0, 1}));
  for (const int off : {0, -1}) {
    params.top_k = off;
    EXPECT_EQ(kept({2.0f, 1.0f}, params), (Ids{0, 1}));
  }
}

TEST(Truncation, TopKBeyondWhatIsMaskedKeepsThatOut) {
  SamplingParams params;
  params.top_k = 3;
  EXPECT_EQ(kept({-kInfinity, 1.0f, -kInfinity, 0.0f}, params), (Ids{1, 3}));
}

TEST(Truncation, TopPKeepsTheSmallestSetThatReachesIt) {
  const Values logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  SamplingParams params;
  for (const auto& [top_p, ids] : std::vector<std::pair<float, Ids>>{
           {0.001f, {1}}, {0.39f, {1}}, {0.41f, {1, 3}}, {0.69f, {1, 3}}, {0.71f, {1, 2, 3}}, {0.91f, {0, 1, 2, 3}}}) {
    params.top_p = top_p;
    EXPECT_EQ(kept(logits, params), ids) << top_p;
  }
}

TEST(Truncation, TopPTakesTiesByLowerId) {
  SamplingParams params;
  params.top_p = 0.5f;
  EXPECT_EQ(kept(Values(10, 3.0f), params), (Ids{0, 1, 2, 3, 4}));
}

// Wide cuts at magnitudes where a slab is less than the spacing of floats, and where one spans all of them.
TEST(Truncation, WideCutsHoldAtAnyMagnitude) {
  for (const float value : {0.0f, 1e9f, -1e9f, 3e38f, -3e38f}) {
    Values logits(1000, value);
    logits[0] = -std::numeric_limits<float>::max();
    SamplingParams params;
    params.top_k = 600;
    EXPECT_EQ(kept(logits, params).back(), 600) << value;
    EXPECT_EQ(kept(logits, params).size(), 600u) << value;
    params.top_k = 0;
    params.top_p = 0.5f;
    EXPECT_EQ(kept(logits, params).back(), 500) << value;
    EXPECT_EQ(kept(logits, params).size(), 500u) << value;
  }
}

TEST(Truncation, TopPIsOfWhatTopKKept) {
  const Values logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  SamplingParams params;
  params.top_k = 2;
  params.top_p = 0.56f;  // 0.4 of 0.7 is 0.571
  EXPECT_EQ(kept(logits, params), (Ids{0}));
  params.top_k = 0;
  EXPECT_EQ(kept(logits, params), (Ids{0, 1}));
}

TEST(Truncation, MinPIsRelativeToTheBest) {
  const Values logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  SamplingParams params;
  params.min_p = 0.51f;
  EXPECT_EQ(kept(logits, params), (Ids{0, 1}));
  params.min_p = 0.49f;
  EXPECT_EQ(kept(logits, params), (Ids{0, 1, 2}));
  params.min_p = 1.0f;
  EXPECT_EQ(kept({1.0f, 1.0f, 0.999f}, params), (Ids{0, 1}));
}

TEST(Truncation, MinPSeesTheRowAfterTemperature) {
  const Values logits = {0.0f, -1.0f, -3.0f};
  SamplingParams params;
  params.min_p = 0.2f;  // ln 0.2 = -1.61
  params.temperature = 2.0f;
  EXPECT_EQ(kept(logits, params), (Ids{0, 1, 2}));
  params.temperature = 0.5f;
  EXPECT_EQ(kept(logits, params), (Ids{0}));
}

TEST(Truncation, GreedyHasNone) {
  SamplingParams params = greedy_params();
  params.top_k = 1;
  params.top_p = 0.1f;
  params.min_p = 0.9f;
  params.return_kept_mass = true;
  EXPECT_EQ(kept({1.0f, 3.0f, 2.0f}, params), (Ids{0, 1, 2}));
  EXPECT_EQ(sample_row(Values{1.0f, 3.0f, 2.0f}, params).kept_logprob, 0.0f);
}

// Everything at once against full sorts and sums in double, the draw included.
void compare_with_oracle(std::mt19937_64& random, int vocab_size) {
  const Values logits = oracle::random_logits(random, vocab_size);
  SamplingParams params = oracle::random_truncation(random, vocab_size);
  const oracle::Row expected = oracle::truncate(logits, params);
  if (expected.ambiguous) return;
  SCOPED_TRACE(testing::Message() << "V " << vocab_size << " T " << params.temperature << " min_p " << params.min_p
                                  << " top_k " << params.top_k << " top_p " << params.top_p);
  params.logprobs = -1;
  params.return_kept_mass = true;
  params.logprobs_mode = LogprobsMode::kProcessedLogprobs;
  const Draw draw = {.seed = random(), .position = static_cast<int64_t>(random() % 10'000)};
  const SampleResult result = sample_row(logits, params, draw);
  ASSERT_TRUE(result.finite);
  EXPECT_NEAR(result.kept_logprob, std::log(expected.kept_mass), 2e-6);
  if (std::all_of(expected.kept.begin(), expected.kept.end(), [](bool k) { return k; })) {
    EXPECT_EQ(result.kept_logprob, 0.0f);
  }
  ASSERT_EQ(result.logprobs.size(), logits.size());
  const double log_sum = oracle::log_sum_exp(expected.scaled);
  for (const TokenLogprob& entry : result.logprobs) {
    const float scaled = expected.scaled[entry.token_id];
    if (!expected.kept[entry.token_id] || scaled == -kInfinity) {
      ASSERT_EQ(entry.logprob, -kInfinity) << entry.token_id;
      ASSERT_EQ(entry.rank, vocab_size);
      continue;
    }
    const double raw = scaled - log_sum;
    ASSERT_NEAR(entry.logprob, raw - std::log(expected.kept_mass), 2e-6 * (1.0 + std::abs(raw)));
    ASSERT_NEAR(entry.logprob, raw - result.kept_logprob, 2e-6 * (1.0 + std::abs(raw)));  // what clients compute
    int32_t rank = 0;
    for (size_t id = 0; id < logits.size(); ++id) rank += expected.kept[id] && expected.scaled[id] >= scaled;
    ASSERT_EQ(entry.rank, rank);
  }
  const int32_t drawn = oracle::draw(expected, uniform(draw.seed, draw.position, RandomPurpose::kDraw));
  if (drawn >= 0) {
    EXPECT_EQ(result.token_id, drawn);
  }
  EXPECT_TRUE(expected.kept[result.token_id]);
}

TEST(Truncation, TinyVocabulariesEqualTheOracle) {
  std::mt19937_64 random(20240501);
  for (int vocab_size = 1; vocab_size <= 600 && !testing::Test::HasFailure(); vocab_size += vocab_size < 40 ? 1 : 7) {
    for (int i = 0; i < 6; ++i) compare_with_oracle(random, vocab_size);
  }
}

// Too wide for the quadratic parts of the oracle above: the kept set and its mass alone.
TEST(Truncation, WideVocabulariesEqualTheOracle) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    const int vocab_size = i % 3 == 0 ? 49'152 : 5'000 + static_cast<int>(random() % 9'000);
    const Values logits = oracle::random_logits(random, vocab_size);
    SamplingParams params = oracle::random_truncation(random, vocab_size);
    const oracle::Row expected = oracle::truncate(logits, params);
    if (expected.ambiguous) continue;
    params.return_kept_mass = true;
    const Draw draw = {.seed = random()};
    const SampleResult result = sample_row(logits, params, draw);
    EXPECT_NEAR(result.kept_logprob, std::log(expected.kept_mass), 3e-6);
    const int32_t drawn = oracle::draw(expected, uniform(draw.seed, 0, RandomPurpose::kDraw));
    if (drawn >= 0) {
      EXPECT_EQ(result.token_id, drawn);
    }
    const Values values = values_of(logits, params, LogprobsMode::kProcessedLogits);
    for (int id = 0; id < vocab_size; ++id) {
      ASSERT_EQ(values[id], expected.kept[id] ? expected.scaled[id] : -kInfinity) << "row " << i << " id " << id;
    }
  }
}

}  // namespace
}  // namespace unspool
