#include "sampling/draw.h"

#include <cmath>

#include "fixture.h"

namespace unspool {
namespace {

using Values = std::vector<float>;

// Just below 1: the largest uniform there is.
constexpr double kLastUniform = 1.0 - 0x1p-53;

int32_t draw_at(const Values& values, double uniform) {
  VocabRow row(reference_vocab_kernels());
  row.reset(values);
  return Drawer(reference_vocab_kernels()).draw(row, {{}, row.blocks()}, uniform);
}

TEST(Draw, WalksTheDistributionById) {
  const Values values = {std::log(0.25f), -kInfinity, std::log(0.5f), std::log(0.25f)};
  EXPECT_EQ(draw_at(values, 0.0), 0);
  EXPECT_EQ(draw_at(values, 0.249), 0);
  EXPECT_EQ(draw_at(values, 0.251), 2);
  EXPECT_EQ(draw_at(values, 0.749), 2);
  EXPECT_EQ(draw_at(values, 0.751), 3);
  EXPECT_EQ(draw_at(values, kLastUniform), 3);
}

TEST(Draw, NeverTakesAMaskedEntryAtTheEnds) {
  Values values(1000, -kInfinity);
  values[300] = -5.0f;
  for (const double u : {0.0, 0.5, kLastUniform}) EXPECT_EQ(draw_at(values, u), 300);
}

// A uniform on a boundary belongs to the entry above it: [0, 1) is cut into half-open shares.
TEST(Draw, SharesAreHalfOpen) {
  for (const int id : {0, 1, 2, 3}) EXPECT_EQ(draw_at(Values(4, 2.0f), 0.25 * id), id);
  for (const int block : {0, 1, 2, 3}) EXPECT_EQ(draw_at(Values(1024, 2.0f), 0.25 * block), 256 * block);
}

TEST(Draw, CrossesBlocks) {
  const Values values(1024, 0.0f);
  for (int id = 0; id < 1024; ++id) EXPECT_EQ(draw_at(values, (id + 0.5) / 1024.0), id);
}

// A probability of 1e-12 is far below what a float32 cumulative sum resolves, in its own block and in another's.
TEST(Draw, RareTokensHaveTheirShare) {
  const float rare = std::log(1e-12f);
  for (const int vocab_size : {200, 600}) {
    Values values(vocab_size, -kInfinity);
    values[0] = 0.0f;
    values[vocab_size - 1] = rare;
    EXPECT_EQ(draw_at(values, 1.0 - 0.9e-12), vocab_size - 1);
    EXPECT_EQ(draw_at(values, 1.0 - 1.1e-12), 0);
    std::swap(values[0], values[vocab_size - 1]);
    EXPECT_EQ(draw_at(values, 0.9e-12), 0);
    EXPECT_EQ(draw_at(values, 1.1e-12), vocab_size - 1);
  }
}

TEST(Draw, NothingToDraw) {
  EXPECT_EQ(draw_at(Values(300, -kInfinity), 0.5), -1);
}

// Pearson's statistic of `draws` draws against the row's own probabilities.
template <class NextTask>
double chi_square(const Values& logits, const SamplingParams& params, const Values& probabilities, int draws,
                  NextTask next) {
  Sampler sampler(reference_vocab_kernels(), static_cast<int>(logits.size()));
  sampler.reserve(1);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    SampleTask task = {logits, &params, {}, {}, 0, 0};
    next(i, task);
    ++counts[sampler.sample(task, 0).token_id];
  }
  double statistic = 0.0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double expected = draws * static_cast<double>(probabilities[id]);
    if (expected == 0.0) {
      EXPECT_EQ(counts[id], 0);
    } else {
      statistic += (counts[id] - expected) * (counts[id] - expected) / expected;
    }
  }
  return statistic;
}

// Ten tokens spread over three blocks.
constexpr int kSpread = 60;
Values spread(const Values& values, float rest) {
  Values row(values.size() * kSpread, rest);
  for (size_t i = 0; i < values.size(); ++i) row[i * kSpread] = values[i];
  return row;
}

constexpr int kDraws = 40'000;
constexpr double kChiSquare9 = 33.7;  // 9 degrees of freedom: exceeded once in 10,000

const Values kTen = {0.3f, 0.2f, 0.15f, 0.1f, 0.08f, 0.06f, 0.05f, 0.03f, 0.02f, 0.01f};

Values logs(Values values) {
  for (float& x : values) x = std::log(x);
  return values;
}

TEST(Draw, PositionsFollowTheDistribution) {
  const auto next = [](int i, SampleTask& task) { task.position = i; };
  EXPECT_LT(chi_square(spread(logs(kTen), -kInfinity), {}, spread(kTen, 0.0f), kDraws, next), kChiSquare9);
}

TEST(Draw, SeedsFollowTheDistribution) {
  const auto next = [](int i, SampleTask& task) { task.seed = 1000 + i; };
  EXPECT_LT(chi_square(spread(logs(kTen), -kInfinity), {}, spread(kTen, 0.0f), kDraws, next), kChiSquare9);
}

TEST(Draw, TemperatureAndTopKShapeTheDistribution) {
  SamplingParams params;
  params.temperature = 2.0f;  // square roots
  params.top_k = 4;
  Values probabilities(10, 0.0f);
  float total = 0.0f;
  for (int i = 0; i < 4; ++i) total += std::sqrt(kTen[i]);
  for (int i = 0; i < 4; ++i) probabilities[i] = std::sqrt(kTen[i]) / total;
  const auto next = [](int i, SampleTask& task) { task.position = i; };
  constexpr double kChiSquare3 = 21.1;
  EXPECT_LT(chi_square(spread(logs(kTen), -kInfinity), params, spread(probabilities, 0.0f), kDraws, next), kChiSquare3);
}

TEST(Draw, DependsOnSeedAndPositionAlone) {
  const Values logits(5000, 0.0f);
  SamplingParams params;
  const int32_t token = sample_row(logits, params, {.seed = 5, .position = 9}).token_id;
  EXPECT_EQ(sample_row(logits, params, {.prompt = {1, 2}, .output = {3}, .seed = 5, .position = 9}).token_id, token);
  params.logprobs = 4;
  params.return_kept_mass = true;
  EXPECT_EQ(sample_row(logits, params, {.seed = 5, .position = 9}).token_id, token);
  EXPECT_NE(sample_row(logits, params, {.seed = 6, .position = 9}).token_id, token);
  EXPECT_NE(sample_row(logits, params, {.seed = 5, .position = 10}).token_id, token);
}

}  // namespace
}  // namespace unspool
