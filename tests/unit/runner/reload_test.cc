// Weights from another directory: the bits of a cold start there, or nothing changed. And their checksums.
#include "memory_fixture.h"

namespace unspool {
namespace {

class ReloadTest : public testing::TestWithParam<std::string> {
 protected:
  ReloadTest() { copy_model(GetParam(), other_, perturb); }
  std::string original() const { return models_dir() + GetParam(); }
  RunnerMemoryOptions options() const { return {.sleep_directory = other_.path(), .preserve_names = {}}; }

  TempDir other_;
};

TEST_P(ReloadTest, EveryReloadIsAColdStart) {
  Sleeper sleeper(original(), options());
  const std::vector<float> a = sleeper.logits();
  const std::vector<float> b = Sleeper(other_.path(), options()).logits();
  ASSERT_FALSE(same_bits(a, b));
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = other_.path()}).ok());
    EXPECT_TRUE(same_bits(sleeper.logits(), b));
    ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = original()}).ok());
    EXPECT_TRUE(same_bits(sleeper.logits(), a));
  }
}

TEST_P(ReloadTest, TheLoadedCheckpointIsTheOneToWakeFrom) {
  Sleeper sleeper(original(), options());
  ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = other_.path()}).ok());
  const std::vector<float> b = sleeper.logits();
  ASSERT_TRUE(sleeper.sleep(true).ok());
  ASSERT_TRUE(sleeper.wake().ok());
  EXPECT_TRUE(same_bits(sleeper.logits(), b));
  sleeper.memory().zero_weights();
  ASSERT_TRUE(sleeper.memory().reload_weights({}).ok());  // the served one: the one loaded last
  EXPECT_TRUE(same_bits(sleeper.logits(), b));
}

TEST_P(ReloadTest, WhatIsWrongChangesNothing) {
  Sleeper sleeper(original(), options());
  const std::vector<float> before = sleeper.logits();
  const auto refused = [&](const std::string& path, ErrorKind kind, const std::string& named) {
    const Status status = sleeper.memory().reload_weights({.weights_path = path});
    ASSERT_FALSE(status.ok()) << named;
    EXPECT_EQ(status.error().kind, kind) << status.error().message;
    EXPECT_EQ(status.error().param, "weights_path");
    EXPECT_NE(status.error().message.find(named), std::string::npos) << status.error().message;
    EXPECT_TRUE(same_bits(before, sleeper.logits())) << named;
  };
  const auto refused_copy = [&](const std::string& named, const std::function<void(std::vector<TestTensor>&)>& change) {
    const TempDir dir;
    copy_model(GetParam(), dir, [&](std::vector<TestTensor>& tensors) {
      perturb(tensors);
      change(tensors);
    });
    refused(dir.path(), ErrorKind::kInvalidArgument, named);
  };
  const auto last = [](std::vector<TestTensor>& tensors) -> TestTensor& {  // checked after all others
    return *std::find_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "model.norm.weight"; });
  };
  refused("/nowhere", ErrorKind::kNotFound, "/nowhere");
  refused(TempDir().path(), ErrorKind::kNotFound, "no weights");
  refused_copy("model.norm.weight", [&](auto& tensors) {
    std::erase_if(tensors, [](const TestTensor& t) { return t.name == "model.norm.weight"; });
  });
  refused_copy("model.norm.weight", [&](auto& tensors) {
    last(tensors).shape = fmt::format("[{}]", last(tensors).bytes.size() / 2 + 1);
    last(tensors).bytes.append(2, '\0');
  });
  refused_copy("model.norm.weight", [&](auto& tensors) { last(tensors).dtype = "I16"; });
  refused_copy("extra.weight", [](auto& tensors) { tensors.push_back({"extra.weight", "BF16", "[1]", "aa"}); });
  const TempDir truncated;
  copy_model(GetParam(), truncated, perturb);
  const std::string file = truncated.path() + "/model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  refused(truncated.path(), ErrorKind::kInvalidArgument, file);
}

TEST_P(ReloadTest, AnotherFormatIsRefusedByName) {
  Sleeper sleeper(original(), options());
  const Status status = sleeper.memory().reload_weights({.weights_path = other_.path(), .is_checkpoint_format = false});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(status.error().param, "is_checkpoint_format");
}

TEST_P(ReloadTest, ChecksumsAreThoseOfTheCheckpointsBytes) {
  Sleeper sleeper(original(), options());
  for (const std::string& dir : {original(), other_.path()}) {
    ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = dir}).ok());
    std::map<std::string, std::string> expected;
    const Checkpoint checkpoint = Checkpoint::open(dir).value();
    for (const std::string& name : checkpoint.names()) {
      const CheckpointTensor tensor = *checkpoint.find(name);
      ASSERT_EQ(tensor.dtype, DType::kBFloat16);
      Sha256 hash;
      hash.add(tensor.bytes.data(), tensor.bytes.size());
      expected[name] = hash.hex();
    }
    EXPECT_EQ(sleeper.memory().weight_checksums(), expected);
  }
}

TEST_P(ReloadTest, ATiedHeadIsNotListed) {
  Sleeper sleeper(original(), options());
  const bool tied = sleeper.runner().model().config().tie_word_embeddings;
  EXPECT_EQ(sleeper.memory().weight_checksums().contains("lm_head.weight"), !tied);
}

TEST_P(ReloadTest, ZeroedWeightsAreZeros) {
  Sleeper sleeper(original(), options());
  sleeper.memory().zero_weights();
  for (const float logit : sleeper.logits()) ASSERT_EQ(logit, 0.0f);
  const Checkpoint checkpoint = Checkpoint::open(original()).value();
  for (const auto& [name, checksum] : sleeper.memory().weight_checksums()) {
    const std::string zeros(checkpoint.find(name)->bytes.size(), '\0');
    Sha256 hash;
    hash.add(zeros.data(), zeros.size());
    EXPECT_EQ(checksum, hash.hex()) << name;
  }
}

TEST_P(ReloadTest, WhatIsSavedIsWhatIsServed) {
  Sleeper sleeper(original(), options());
  ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = other_.path()}).ok());
  const std::vector<float> served = sleeper.logits();
  const auto checksums = sleeper.memory().weight_checksums();
  const TempDir to;
  const Status saved = sleeper.memory().save_weights({.path = to.path(), .max_size = 5000});
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = original()}).ok());
  ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = to.path()}).ok());
  EXPECT_TRUE(same_bits(sleeper.logits(), served));
  EXPECT_EQ(sleeper.memory().weight_checksums(), checksums);
}

INSTANTIATE_TEST_SUITE_P(Models, ReloadTest,
                         testing::Values("llama-gqa-tied", "qwen2-untied", "qwen3-tied", "llama-bias", "gemma3", "phi3",
                                         "smollm3-window"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A tied checkpoint with a head of its own: the embedding is served in both places, before a reload and after.
TEST(ReloadTiedTest, ARedundantHeadIsAccepted) {
  TempDir dir;
  copy_model("qwen3-tied", dir, [](std::vector<TestTensor>& tensors) {
    perturb(tensors);
    TestTensor head = *std::find_if(tensors.begin(), tensors.end(),
                                    [](const auto& t) { return t.name == "model.embed_tokens.weight"; });
    head.name = "lm_head.weight";
    tensors.push_back(head);
  });
  Sleeper sleeper(models_dir() + "qwen3-tied", {.preserve_names = {}});
  ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = dir.path()}).ok());
  EXPECT_TRUE(same_bits(sleeper.logits(), Sleeper(dir.path(), {.preserve_names = {}}).logits()));
  EXPECT_FALSE(sleeper.memory().weight_checksums().contains("lm_head.weight"));
}

}  // namespace
}  // namespace unspool
