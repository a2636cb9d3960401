// Weights from an update: the bits of a cold start on them, through every mode, type and sleep.
#include "memory_fixture.h"

namespace unspool {
namespace {

struct Case {
  const char* model;
  DType dtype;
  WeightUpdateMode mode;
};

std::string name_of(const Case& c) {
  std::string name = fmt::format("{}_{}_{}", c.model, torch_name(c.dtype),
                                 c.mode == WeightUpdateMode::kInPlace ? "in_place" : "double_buffer");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class UpdateTest : public testing::TestWithParam<Case> {
 protected:
  UpdateTest() { copy_model(GetParam().model, other_, perturb); }

  std::string original() const { return models_dir() + GetParam().model; }
  RunnerMemoryOptions options(std::vector<std::string> preserve = {}) const {
    return {.sleep_directory = cache_.path(), .preserve_names = std::move(preserve)};
  }
  std::unique_ptr<Sleeper> serve(const std::string& dir, RunnerMemoryOptions with) const {
    return std::make_unique<Sleeper>(dir, std::move(with), 2, GetParam().dtype, GetParam().mode);
  }
  std::unique_ptr<Sleeper> serve(const std::string& dir) const { return serve(dir, options()); }
  bool in_place() const { return GetParam().mode == WeightUpdateMode::kInPlace; }

  // The tensors of a checkpoint, but for those that `without` names, into the open session.
  void put(Sleeper& sleeper, const std::string& dir, const std::vector<std::string>& without = {}) {
    const Checkpoint checkpoint = Checkpoint::open(dir).value();
    for (const std::string& name : checkpoint.names()) {
      if (std::find(without.begin(), without.end(), name) != without.end()) continue;
      const CheckpointTensor tensor = *checkpoint.find(name);
      const Status status = sleeper.staging().put(
          session_, {.name = name, .dtype = tensor.dtype, .shape = tensor.shape, .num_updates = {}}, tensor.bytes);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
  }
  void begin(Sleeper& sleeper) { ASSERT_TRUE(sleeper.memory().begin_update(++session_).ok()); }
  Result<bool> update(Sleeper& sleeper, const std::string& dir, const std::vector<std::string>& without = {},
                      bool partial = false) {
    begin(sleeper);
    put(sleeper, dir, without);
    return sleeper.memory().commit_update(partial);
  }
  void expect_updated(Sleeper& sleeper, const std::string& dir) {
    const auto updated = update(sleeper, dir);
    ASSERT_TRUE(updated.ok()) << updated.error().message;
    EXPECT_TRUE(*updated);
  }

  TempDir other_;
  TempDir cache_{std::filesystem::current_path()};  // on a disk, which /tmp need not be
  uint64_t session_ = 0;
};

TEST_P(UpdateTest, EveryUpdateIsAColdStart) {
  const auto sleeper = serve(original());
  const std::vector<float> a = sleeper->logits();
  const auto cold = serve(other_.path());
  const std::vector<float> b = cold->logits();
  ASSERT_FALSE(same_bits(a, b));
  for (int cycle = 0; cycle < 3; ++cycle) {
    expect_updated(*sleeper, other_.path());
    EXPECT_TRUE(same_bits(sleeper->logits(), b));
    EXPECT_EQ(sleeper->memory().weight_checksums(), cold->memory().weight_checksums());
    expect_updated(*sleeper, original());
    EXPECT_TRUE(same_bits(sleeper->logits(), a));
  }
}

TEST_P(UpdateTest, WhatWasUpdatedComesBackFromLevel1) {
  const auto sleeper = serve(original());
  expect_updated(*sleeper, other_.path());
  const std::vector<float> b = sleeper->logits();
  for (int cycle = 0; cycle < 2; ++cycle) {
    ASSERT_TRUE(sleeper->sleep(true).ok());
    EXPECT_EQ(sleeper->staging().resident_bytes(), 0u);
    ASSERT_TRUE(sleeper->wake().ok());
    EXPECT_TRUE(same_bits(sleeper->logits(), b));
  }
}

TEST_P(UpdateTest, AfterLevel2AWholeUpdateIsAColdStart) {
  const auto sleeper = serve(original());
  const std::vector<float> b = serve(other_.path())->logits();
  expect_updated(*sleeper, original());
  ASSERT_TRUE(sleeper->sleep(false).ok());
  EXPECT_EQ(sleeper->staging().resident_bytes(), 0u);
  ASSERT_TRUE(sleeper->wake().ok());
  // Part of them alone leaves the rest undefined.
  const auto partial = update(*sleeper, other_.path(), {"model.norm.weight"}, true);
  ASSERT_TRUE(partial.ok());
  EXPECT_FALSE(*partial);
  expect_updated(*sleeper, other_.path());
  EXPECT_TRUE(same_bits(sleeper->logits(), b));
}

TEST_P(UpdateTest, PreservedParametersNeedNotComeAfterLevel2) {
  const bool fused = std::string_view(GetParam().model).starts_with("phi3");
  const std::string projection = fused ? "0.self_attn.qkv_proj.weight" : "0.self_attn.k_proj.weight";
  const std::vector<std::string> kept = {"model.norm.weight", "model.layers." + projection};
  const auto sleeper = serve(original(), options({"model.norm.*", "*." + projection}));
  expect_updated(*sleeper, other_.path());
  const std::vector<float> b = sleeper->logits();
  const auto refused = update(*sleeper, other_.path(), kept);  // awake they are as good as any
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("lacks 2 of"), std::string::npos) << refused.error().message;
  for (const auto& name : kept) EXPECT_NE(refused.error().message.find(name), std::string::npos);
  sleeper->memory().drop_update();
  if (in_place()) expect_updated(*sleeper, other_.path());

  ASSERT_TRUE(sleeper->sleep(false).ok());
  ASSERT_TRUE(sleeper->wake().ok());
  const auto updated = update(*sleeper, other_.path(), kept);
  ASSERT_TRUE(updated.ok()) << updated.error().message;
  EXPECT_TRUE(*updated);
  EXPECT_TRUE(same_bits(sleeper->logits(), b));
}

TEST_P(UpdateTest, WhatIsMissingIsNamedAndTheSessionGoesOn) {
  const auto sleeper = serve(original());
  const std::vector<float> a = sleeper->logits(), b = serve(other_.path())->logits();
  begin(*sleeper);
  const auto none = sleeper->memory().commit_update(false);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("model.embed_tokens.weight"), std::string::npos) << none.error().message;
  EXPECT_NE(none.error().message.find(", ..."), std::string::npos);  // ten are enough
  EXPECT_EQ(std::count(none.error().message.begin(), none.error().message.end(), ','), 11);
  EXPECT_TRUE(same_bits(sleeper->logits(), a));
  put(*sleeper, other_.path());
  ASSERT_TRUE(sleeper->memory().commit_update(false).ok());
  EXPECT_TRUE(same_bits(sleeper->logits(), b));
}

TEST_P(UpdateTest, ADroppedSessionLeavesWhatItCan) {
  const auto sleeper = serve(original());
  const std::vector<float> a = sleeper->logits(), b = serve(other_.path())->logits();
  begin(*sleeper);
  put(*sleeper, other_.path(), {"model.norm.weight"});
  EXPECT_EQ(sleeper->memory().drop_update(), in_place());
  if (!in_place()) {
    EXPECT_TRUE(same_bits(sleeper->logits(), a));
    return;
  }
  const auto rest = update(*sleeper, other_.path(), {"model.embed_tokens.weight"}, true);
  ASSERT_TRUE(rest.ok());
  EXPECT_FALSE(*rest);
  expect_updated(*sleeper, other_.path());
  EXPECT_TRUE(same_bits(sleeper->logits(), b));
}

TEST_P(UpdateTest, AReloadAfterAnUpdateIsAColdStartToo) {
  const auto sleeper = serve(original());
  const std::vector<float> a = sleeper->logits();
  expect_updated(*sleeper, other_.path());
  ASSERT_TRUE(sleeper->memory().reload_weights({}).ok());
  EXPECT_TRUE(same_bits(sleeper->logits(), a));
}

constexpr auto kBeside = WeightUpdateMode::kDoubleBuffer, kOver = WeightUpdateMode::kInPlace;
INSTANTIATE_TEST_SUITE_P(
    Models, UpdateTest,
    testing::Values(Case{"llama-gqa-tied", DType::kBFloat16, kBeside}, Case{"llama-gqa-tied", DType::kFloat32, kBeside},
                    Case{"qwen2-untied", DType::kBFloat16, kBeside}, Case{"qwen2-untied", DType::kBFloat16, kOver},
                    Case{"llama-f32", DType::kFloat32, kBeside}, Case{"llama-f32", DType::kBFloat16, kBeside},
                    Case{"llama-f16", DType::kFloat16, kBeside}, Case{"qwen3-tied", DType::kBFloat16, kOver},
                    Case{"llama-bias", DType::kBFloat16, kBeside}, Case{"gemma2", DType::kBFloat16, kBeside},
                    Case{"phi3-window", DType::kBFloat16, kBeside}, Case{"olmo2", DType::kBFloat16, kOver}),
    [](const auto& info) { return name_of(info.param); });

TEST(UpdateWithoutTransferTest, IsRefused) {
  ServedModel served({.model = "llama-gqa-tied"});
  ThreadPool pool(1);
  RunnerMemory memory(served.runner(), Checkpoint::open(models_dir() + "llama-gqa-tied").value(), pool, {});
  const Status begun = memory.begin_update(1);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kInternal);
  EXPECT_FALSE(memory.drop_update());
  EXPECT_FALSE(memory.updates_in_place());
}

}  // namespace
}  // namespace unspool
