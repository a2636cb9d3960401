// Every tiny model against float32 transformers, and its bf16 logits against committed hashes.
#include <cmath>

#include "../support/golden_hashes.h"
#include "runner_fixture.h"

namespace unspool {
namespace {

// The truth's own rounding is what is left: its values are printed to six digits.
constexpr double kTolerance = 2e-4;

double logprob(std::span<const float> logits, int32_t id) {
  double max = logits[0];
  for (const float x : logits) max = std::max(max, static_cast<double>(x));
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  return static_cast<double>(logits[static_cast<size_t>(id)]) - max - std::log(sum);
}

class GoldenModelsTest : public testing::TestWithParam<std::string> {
 protected:
  std::span<const float> row(const std::vector<float>& logits, int64_t r, int64_t vocab) {
    return std::span(logits).subspan(static_cast<size_t>(r * vocab), static_cast<size_t>(vocab));
  }
};

TEST_P(GoldenModelsTest, PromptLogprobsInFloat32) {
  for (const GoldenModel& golden : GoldenModel::sides(GetParam())) {
    ServedModel model({.model = GetParam(), .dtype = DType::kFloat32, .max_positions = golden.max_model_len});
    ASSERT_EQ(golden.prompts.size(), golden.prompt_logprobs.size());
    for (size_t p = 0; p < golden.prompts.size(); ++p) {
      const auto& ids = golden.prompts[p];
      const std::vector<float> logits = model.logits_of(ids, ServedModel::kMaxTokens);
      ASSERT_EQ(golden.prompt_logprobs[p].size() + 1, ids.size());
      for (size_t i = 1; i < ids.size(); ++i)
        EXPECT_NEAR(logprob(row(logits, static_cast<int64_t>(i) - 1, model.vocab_size()), ids[i]),
                    golden.prompt_logprobs[p][i - 1], kTolerance)
            << "for " << golden.max_model_len << ", prompt " << p << ", token " << i;
    }
  }
}

TEST_P(GoldenModelsTest, GreedyInFloat32) {
  for (const GoldenModel& golden : GoldenModel::sides(GetParam())) {
    ServedModel model({.model = GetParam(), .dtype = DType::kFloat32, .max_positions = golden.max_model_len});
    for (const auto& run : golden.greedy) {
      const auto table = model.blocks(static_cast<int64_t>(run.prompt.size() + run.token_ids.size()));
      std::vector<int32_t> ids = run.prompt;
      int start = 0;
      for (size_t i = 0; i < run.token_ids.size(); ++i) {
        std::vector<float> logits;
        model.step(ids, start, table, &logits);
        const auto last = row(logits, static_cast<int64_t>(ids.size()) - 1, model.vocab_size());
        const auto token = static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin());
        ASSERT_EQ(token, run.token_ids[i]) << "for " << golden.max_model_len << ", token " << i;
        EXPECT_NEAR(logprob(last, token), run.logprobs[i], kTolerance) << "token " << i;
        start += static_cast<int>(ids.size());
        ids = {token};
      }
    }
  }
}

// bf16 keeps close to the truth; how close is what bench/logprob_gap.py measures.
TEST_P(GoldenModelsTest, Bf16HasTheCommittedBits) {
  GoldenHashes hashes("logits.txt");
  const GoldenModel golden(GetParam());
  for (const auto& [precision, suffix] :
       {std::pair{MatmulPrecision::kBf16, "/bf16"}, std::pair{MatmulPrecision::kBf16x2, "/bf16x2"}})
    for (const std::string& isa : cpu::available_instruction_sets()) {
      ServedModel model(
          {.model = GetParam(), .precision = precision, .isa = isa, .max_positions = golden.max_model_len});
      Hash hash;
      for (const auto& ids : golden.prompts) hash.add(model.logits_of(ids, ServedModel::kMaxTokens));
      SCOPED_TRACE(isa);
      hashes.expect(GetParam() + suffix, hash.value());
    }
}

// What is served of a bf16 checkpoint is no further from the truth than transformers is in bf16.
TEST_P(GoldenModelsTest, Bf16IsAsCloseAsTransformers) {
  const GoldenModel golden(GetParam());
  if (GetParam().ends_with("-f16") || GetParam().ends_with("-f32")) GTEST_SKIP() << "no bf16 checkpoint";
  ASSERT_TRUE(golden.bf16_gap);
  ServedModel model({.model = GetParam()});
  std::vector<double> gaps;
  for (size_t p = 0; p < golden.prompts.size(); ++p) {
    const auto& ids = golden.prompts[p];
    const std::vector<float> logits = model.logits_of(ids, ServedModel::kMaxTokens);
    for (size_t i = 1; i < ids.size(); ++i)
      gaps.push_back(std::abs(logprob(row(logits, static_cast<int64_t>(i) - 1, model.vocab_size()), ids[i]) -
                              golden.prompt_logprobs[p][i - 1]));
  }
  const auto middle = gaps.begin() + static_cast<int64_t>(gaps.size() / 2);
  std::nth_element(gaps.begin(), middle, gaps.end());
  RecordProperty("gap", std::to_string(*middle));
  EXPECT_LE(*middle, *golden.bf16_gap);
  EXPECT_GT(*middle, *golden.bf16_gap / 100) << "not served in bf16";
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenModelsTest, testing::ValuesIn(model_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace unspool
