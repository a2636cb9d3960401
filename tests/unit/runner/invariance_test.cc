// The same bits in every schedule: chunks, block sizes, threads, instruction sets, neighbours.
#include "runner_fixture.h"

namespace unspool {
namespace {

constexpr const char* kModel = "llama-gqa-tied";

std::vector<int32_t> prompt(int tokens, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(random.below(320));
  return ids;
}

TEST(InvarianceTest, ChunksBlockSizesThreadsAndInstructionSets) {
  for (const char* name : {kModel, "qwen3-tied", "mistral-window", "gemma2", "qwen2-moe", "qwen3-moe"}) {
    const std::vector<int32_t> ids = prompt(300, 61);
    const std::vector<float> expected = ServedModel({.model = name, .isa = "scalar"}).logits_of(ids, 300);
    for (const std::string& isa : cpu::available_instruction_sets())
      for (const int threads : {1, 2})
        for (const int64_t block_size : {8, 16, 128}) {
          if (isa == "scalar" && threads * block_size != 8) continue;  // slow, and its bodies are the same
          ServedModel model({.model = name, .isa = isa, .threads = threads, .block_size = block_size});
          for (const int chunk : {1, 16, 64, 257, 300}) {
            if (chunk == 1 && threads == 2 && block_size != 16) continue;
            EXPECT_TRUE(same_bits(expected, model.logits_of(ids, chunk)))
                << name << ", " << isa << ", " << threads << " threads, blocks of " << block_size << ", chunks of "
                << chunk;
          }
        }
  }
}

TEST(InvarianceTest, ServedTypesAndPrecisions) {
  const std::vector<int32_t> ids = prompt(150, 62);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
    for (const auto precision : {MatmulPrecision::kBf16, MatmulPrecision::kBf16x2}) {
      std::vector<float> expected;
      for (const std::string& isa : cpu::available_instruction_sets()) {
        ServedModel model({.model = kModel, .dtype = dtype, .precision = precision, .isa = isa});
        for (const int chunk : {150, 40}) {
          const std::vector<float> logits = model.logits_of(ids, chunk);
          if (expected.empty()) expected = logits;
          EXPECT_TRUE(same_bits(expected, logits)) << torch_name(dtype) << ", " << isa << ", chunks of " << chunk;
        }
      }
    }
}

// A step with decodes, a prefill and a chunk of another; logits of some rows only.
TEST(InvarianceTest, RaggedBatches) {
  ServedModel model({.model = kModel, .threads = 2});
  struct Running {
    std::vector<int32_t> ids, table;
    std::vector<float> alone;
    int done = 0;
  };
  std::vector<Running> running;
  for (const int tokens : {1, 130, 17, 64, 5, 200}) {
    Running r{prompt(tokens, 63 + static_cast<uint64_t>(tokens)), {}, {}, 0};
    r.alone = model.logits_of(r.ids, ServedModel::kMaxTokens);
    running.push_back(r);
  }
  for (auto& r : running) r.table = model.blocks(static_cast<int64_t>(r.ids.size()));
  Random random(64);
  const auto vocab = static_cast<size_t>(model.vocab_size());
  for (bool first = true;; first = false) {
    StepPlan plan;
    std::vector<std::pair<size_t, int>> wanted;  // (sequence, position)
    for (size_t i = 0; i < running.size(); ++i) {
      Running& r = running[i];
      if (first) plan.blocks_to_zero.insert(plan.blocks_to_zero.end(), r.table.begin(), r.table.end());
      const int left = static_cast<int>(r.ids.size()) - r.done;
      const int n = std::min(left, random.below(3) == 0 ? 1 : 1 + random.below(60));
      if (n == 0) continue;
      ScheduledSequence s{.sequence_id = static_cast<int64_t>(i),
                          .start = r.done,
                          .token_ids = {r.ids.begin() + r.done, r.ids.begin() + r.done + n},
                          .block_table = r.table,
                          .logits_rows = {}};
      for (int t = 0; t < n; ++t)
        if (random.below(3) == 0 || t + 1 == static_cast<int>(r.ids.size()) - r.done) {
          s.logits_rows.push_back(t);
          wanted.emplace_back(i, r.done + t);
        }
      r.done += n;
      plan.sequences.push_back(std::move(s));
    }
    if (plan.sequences.empty()) break;
    model.runner().execute(plan);
    std::vector<float> logits;
    model.take_logits(plan.num_logits_rows(), &logits);
    ASSERT_EQ(logits.size(), wanted.size() * vocab);
    for (size_t w = 0; w < wanted.size(); ++w)
      EXPECT_TRUE(same_bits(
          std::span(running[wanted[w].first].alone).subspan(static_cast<size_t>(wanted[w].second) * vocab, vocab),
          std::span(logits).subspan(w * vocab, vocab)))
          << "sequence " << wanted[w].first << ", position " << wanted[w].second;
  }
}

// A fork shares the full blocks and copies the partial one.
class SharedPrefixes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, SharedPrefixes, testing::Values(kModel, "mistral-window", "gemma2"));

TEST_P(SharedPrefixes, AForkIsItselfAlone) {
  ServedModel model({.model = GetParam()});
  const std::vector<int32_t> ids = prompt(75, 65);
  const std::vector<float> alone = model.logits_of(ids, ServedModel::kMaxTokens);
  const auto table = model.blocks(75);
  std::vector<float> first;
  model.step({ids.begin(), ids.begin() + 70}, 0, table, &first);
  std::vector<int32_t> fork = table;
  fork.back() = model.blocks(1)[0];  // positions 64 to 79, of which 64 to 69 are filled
  StepPlan plan;
  plan.blocks_to_zero = {fork.back()};
  plan.blocks_to_copy = {{table.back(), fork.back()}};
  plan.sequences.push_back({.sequence_id = 2,
                            .start = 70,
                            .token_ids = {ids.begin() + 70, ids.end()},
                            .block_table = fork,
                            .logits_rows = {4}});
  model.runner().execute(plan);
  std::vector<float> last;
  model.take_logits(1, &last);
  EXPECT_TRUE(same_bits(std::span(alone).last(last.size()), last));
}

TEST(InvarianceTest, AStepWithoutLogits) {
  ServedModel model({.model = kModel});
  const std::vector<int32_t> ids = prompt(20, 66);
  const std::vector<float> alone = model.logits_of(ids, ServedModel::kMaxTokens);
  const auto table = model.blocks(20);
  StepPlan plan;
  plan.blocks_to_zero = table;
  plan.sequences.push_back({.sequence_id = 3,
                            .start = 0,
                            .token_ids = {ids.begin(), ids.begin() + 10},
                            .block_table = table,
                            .logits_rows = {}});
  model.runner().execute(plan);
  std::vector<float> rest;
  model.step({ids.begin() + 10, ids.end()}, 10, table, &rest);
  EXPECT_TRUE(same_bits(std::span(alone).last(rest.size()), rest));
}

}  // namespace
}  // namespace unspool
