// What is kept of the experts that tokens went to is what float32 transformers' routers chose, in every schedule.
#include "runner_fixture.h"

namespace unspool {
namespace {

std::vector<std::string> models_with_experts() {
  std::vector<std::string> names;
  for (const std::string& name : model_names())
    if (!GoldenModel(name).routed_experts.empty()) names.push_back(name);
  return names;
}

// [tokens][layer, rank]
std::vector<std::vector<int32_t>> kept(const ServedModel& model, const std::vector<int32_t>& table, int tokens) {
  const RoutedExpertsShape shape = model.runner().routed_experts();
  std::vector<std::byte> bytes(static_cast<size_t>(tokens) * shape.row_bytes());
  model.runner().read_routed_experts(table, 0, tokens, bytes.data());
  std::vector<std::vector<int32_t>> rows(static_cast<size_t>(tokens));
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  for (auto& row : rows)
    for (int64_t i = 0; i < shape.layers * shape.top_k; ++i, at += shape.id_bytes)
      row.push_back(shape.id_bytes == 1 ? *at : at[0] | at[1] << 8);
  return rows;
}

TEST(RoutedExpertsTest, ThereAreModels) {
  EXPECT_GE(models_with_experts().size(), 4u);
}

TEST(RoutedExpertsTest, AreThoseOfTransformers) {
  for (const std::string& name : models_with_experts()) {
    const GoldenModel golden(name);
    for (const int chunk : {512, 16, 7})
      for (const int threads : {1, 2}) {
        ServedModel model({.model = name, .dtype = DType::kFloat32, .threads = threads, .keeps_experts = true});
        for (size_t p = 0; p < golden.prompts.size(); ++p) {
          const auto& ids = golden.prompts[p];
          const auto table = model.blocks(static_cast<int64_t>(ids.size()));
          // Logits of the last row alone, and of none where a chunk ends before: the routers see the others all the
          // same.
          for (size_t start = 0; start < ids.size(); start += static_cast<size_t>(chunk)) {
            const size_t end = std::min(ids.size(), start + static_cast<size_t>(chunk));
            StepPlan plan;
            if (start == 0) plan.blocks_to_zero = table;
            plan.sequences.push_back(
                {.sequence_id = 1,
                 .start = static_cast<int>(start),
                 .token_ids = {ids.begin() + static_cast<int64_t>(start), ids.begin() + static_cast<int64_t>(end)},
                 .block_table = table,
                 .logits_rows = {}});
            if (end == ids.size()) plan.sequences[0].logits_rows = {static_cast<int32_t>(end - start) - 1};
            model.runner().execute(plan);
          }
          EXPECT_EQ(kept(model, table, static_cast<int>(ids.size())), golden.routed_experts[p])
              << name << ", prompt " << p << ", chunks of " << chunk << ", " << threads << " threads";
        }
      }
  }
}

// In bf16 too they depend on nothing but what stands before, and keeping them changes no logits.
TEST(RoutedExpertsTest, DependOnNoScheduleAndChangeNothing) {
  for (const std::string& name : models_with_experts()) {
    const std::vector<int32_t> ids = GoldenModel(name).prompts.back();
    const std::vector<float> plain = ServedModel({.model = name}).logits_of(ids, ServedModel::kMaxTokens);
    std::vector<std::vector<int32_t>> expected;
    for (const std::string& isa : cpu::available_instruction_sets())
      for (const int chunk : {512, 33, 1}) {
        ServedModel model({.model = name, .isa = isa, .threads = 2, .keeps_experts = true});
        const auto table = model.blocks(static_cast<int64_t>(ids.size()));
        std::vector<float> logits;
        for (size_t start = 0; start < ids.size(); start += static_cast<size_t>(chunk))
          model.step({ids.begin() + static_cast<int64_t>(start),
                      ids.begin() + static_cast<int64_t>(std::min(ids.size(), start + static_cast<size_t>(chunk)))},
                     static_cast<int>(start), table, &logits);
        EXPECT_TRUE(same_bits(plain, logits)) << name << ", " << isa << ", chunks of " << chunk;
        const auto rows = kept(model, table, static_cast<int>(ids.size()));
        if (expected.empty()) expected = rows;
        EXPECT_EQ(rows, expected) << name << ", " << isa << ", chunks of " << chunk;
      }
  }
}

TEST(RoutedExpertsTest, GoWithTheirBlocks) {
  const std::string name = "qwen3-moe-fused";  // ids of two bytes
  const std::vector<int32_t> ids = GoldenModel(name).prompts.back();
  ServedModel model({.model = name, .keeps_experts = true});
  const auto table = model.blocks(40);
  std::vector<float> logits;
  model.step({ids.begin(), ids.begin() + 40}, 0, table, &logits);
  const auto rows = kept(model, table, 40);
  std::vector<int32_t> fork = table;
  fork.back() = model.blocks(1)[0];
  StepPlan plan;
  plan.blocks_to_zero = {fork.back()};
  plan.blocks_to_copy = {{table.back(), fork.back()}};
  plan.sequences.push_back(
      {.sequence_id = 2, .start = 40, .token_ids = {ids[40]}, .block_table = fork, .logits_rows = {0}});
  model.runner().execute(plan);
  EXPECT_EQ(kept(model, fork, 40), rows);
  EXPECT_EQ(kept(model, table, 40), rows);

  const size_t resident = model.runner().kv_cache_bytes();
  model.runner().release_kv_cache();
  EXPECT_LT(model.runner().kv_cache_bytes(), resident);
  ASSERT_TRUE(model.runner().restore_kv_cache().ok());
  logits.clear();
  model.step({ids.begin(), ids.begin() + 40}, 0, table, &logits);
  EXPECT_EQ(kept(model, table, 40), rows);
}

}  // namespace
}  // namespace unspool
