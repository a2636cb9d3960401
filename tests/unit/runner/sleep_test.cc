// Sleep and wake: every way back gives the bits from before, and memory is really given up.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "memory_fixture.h"

namespace unspool {
namespace {

constexpr const char* kModels[] = {"llama-gqa-tied", "qwen2-untied", "qwen3-tied", "llama-bias"};

class SleepTest : public testing::Test {
 protected:
  RunnerMemoryOptions options() const { return {.sleep_directory = cache_.path(), .preserve_names = {}}; }
  static void keep(std::vector<TestTensor>&) {}
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(cache_.path()), {}));
  }
  // Weights that no checkpoint has.
  static void make_dirty(Sleeper& sleeper) {
    WeightSet& weights = sleeper.runner().model().weights();
    sleeper.memory().zero_weights();
    std::mt19937 random(5);
    for (const Parameter& parameter : weights.parameters()) {
      std::vector<std::byte> bytes(parameter.size_bytes(DType::kBFloat16));
      for (size_t i = 0; i < bytes.size(); i += 2) {
        bytes[i] = static_cast<std::byte>(random());
        bytes[i + 1] = static_cast<std::byte>(0x3c | (random() & 0x80));  // +-0.01 or so
      }
      weights.write(parameter, bytes);
    }
  }

  TempDir model_;
  TempDir cache_{std::filesystem::current_path()};  // on a disk, which /tmp need not be
};

TEST_F(SleepTest, CleanWeightsComeFromTheCheckpoint) {
  for (const char* name : kModels) {
    Sleeper sleeper(models_dir() + name, options());
    const std::vector<float> before = sleeper.logits();
    const auto checksums = sleeper.memory().weight_checksums();
    for (int cycle = 0; cycle < 3; ++cycle) {
      ASSERT_TRUE(sleeper.sleep(true).ok());
      EXPECT_EQ(files(), 0u);
      ASSERT_TRUE(sleeper.wake().ok());
      EXPECT_TRUE(same_bits(before, sleeper.logits())) << name;
      EXPECT_EQ(sleeper.memory().weight_checksums(), checksums);
    }
  }
}

TEST_F(SleepTest, DirtyWeightsComeFromAFileOrFromMemory) {
  for (const bool in_memory : {false, true}) {
    RunnerMemoryOptions with = options();
    with.keep_in_memory = in_memory;
    Sleeper sleeper(models_dir() + "qwen2-untied", with);
    const std::vector<float> clean = sleeper.logits();
    make_dirty(sleeper);
    const std::vector<float> before = sleeper.logits();
    ASSERT_FALSE(same_bits(clean, before));
    for (int cycle = 0; cycle < 2; ++cycle) {
      ASSERT_TRUE(sleeper.sleep(true).ok());
      EXPECT_EQ(files(), 0u);  // it has no name: nothing can be left behind
      EXPECT_THROW(sleeper.logits(), CheckFailure);
      ASSERT_TRUE(sleeper.wake().ok());
      EXPECT_TRUE(same_bits(before, sleeper.logits())) << in_memory;
    }
  }
}

TEST_F(SleepTest, ABackupThatCannotBeWrittenChangesNothing) {
  cache_.write("file", "");
  for (const std::string& directory : {cache_.path() + "/file/below", std::string("/dev/shm/unspool-test")}) {
    RunnerMemoryOptions with = options();
    with.sleep_directory = directory;
    Sleeper sleeper(models_dir() + "llama-gqa-tied", with);
    make_dirty(sleeper);
    const std::vector<float> before = sleeper.logits();
    const Status status = sleeper.sleep(true);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find(directory), std::string::npos) << status.error().message;
    EXPECT_TRUE(same_bits(before, sleeper.logits()));
  }
  std::filesystem::remove("/dev/shm/unspool-test");
}

TEST_F(SleepTest, ThereMustBeSpaceForABackup) {
  const auto file = SleepFile::create(cache_.path(), size_t{1} << 60);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("are free"), std::string::npos) << file.error().message;
}

TEST_F(SleepTest, DiscardedWeightsAreGoneUntilAReload) {
  Sleeper sleeper(models_dir() + "qwen3-tied", options());
  const std::vector<float> before = sleeper.logits();
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_TRUE(sleeper.sleep(false).ok());
    const Status asleep = sleeper.memory().reload_weights({});
    ASSERT_FALSE(asleep.ok());
    EXPECT_EQ(asleep.error().kind, ErrorKind::kConflict);
    ASSERT_TRUE(sleeper.wake().ok());
    for (const float logit : sleeper.logits()) ASSERT_EQ(logit, 0.0f);
    ASSERT_TRUE(sleeper.memory().reload_weights({}).ok());
    EXPECT_TRUE(same_bits(before, sleeper.logits()));
  }
}

TEST_F(SleepTest, DiscardedWeightsSurviveALevelOneSleepAsTheyAre) {
  RunnerMemoryOptions with = options();
  with.preserve_names = {"model.norm.weight", "model.embed*"};
  Sleeper sleeper(models_dir() + "qwen3-tied", with);
  ASSERT_TRUE(sleeper.sleep(false).ok());
  ASSERT_TRUE(sleeper.wake().ok());
  const auto checksums = sleeper.memory().weight_checksums();
  ASSERT_TRUE(sleeper.sleep(true).ok());
  ASSERT_TRUE(sleeper.wake().ok());
  EXPECT_EQ(sleeper.memory().weight_checksums(), checksums);
}

TEST_F(SleepTest, NamesToPreserve) {
  RunnerMemoryOptions with = options();
  with.preserve_names = {"*.k_proj.*", "model.layers.[!0].mlp.down_proj.weight", "model.norm.weight", "draft.*"};
  Sleeper sleeper(models_dir() + "qwen2-untied", with);
  const auto before = sleeper.memory().weight_checksums();
  ASSERT_TRUE(sleeper.sleep(false).ok());
  ASSERT_TRUE(sleeper.wake().ok());
  int preserved = 0;
  for (const auto& [name, checksum] : sleeper.memory().weight_checksums()) {
    const bool expected = name.find(".k_proj.") != name.npos || name == "model.layers.1.mlp.down_proj.weight" ||
                          name == "model.norm.weight";
    EXPECT_EQ(checksum == before.at(name), expected) << name;
    preserved += expected ? 1 : 0;
  }
  EXPECT_EQ(preserved, 6);
}

TEST_F(SleepTest, APatternThatMatchesNothingKeepsEverything) {
  RunnerMemoryOptions with = options();
  with.preserve_names = {"model.norm.weight", "visual.*"};
  Sleeper sleeper(models_dir() + "qwen2-untied", with);
  const std::vector<float> before = sleeper.logits();
  const Status status = sleeper.sleep(false);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("'visual.*'"), std::string::npos) << status.error().message;
  EXPECT_TRUE(same_bits(before, sleeper.logits()));
}

class ChangedCheckpointTest : public SleepTest {
 protected:
  ChangedCheckpointTest() {
    copy_model("qwen3-tied", model_, keep);
    file_ = model_.path() + "/model.safetensors";
  }
  // Writes other weights into the file that is there.
  void change_in_place() {
    TempDir other;
    copy_model("qwen3-tied", other, perturb);
    const std::string bytes = read_file(other.path() + "/model.safetensors").value();
    std::fstream(file_, std::ios::in | std::ios::out | std::ios::binary) << bytes;
    timespec times[] = {{0, UTIME_OMIT}, {123456789, 0}};  // whatever the clock's grain
    ASSERT_EQ(::utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  }
  std::string file_;
};

TEST_F(ChangedCheckpointTest, InPlaceDuringSleepIsAConflict) {
  for (const bool truncated : {false, true}) {
    copy_model("qwen3-tied", model_, keep);
    Sleeper sleeper(model_.path(), options());
    ASSERT_TRUE(sleeper.sleep(true).ok());
    if (truncated) {
      std::filesystem::resize_file(file_, 4096);
    } else {
      change_in_place();
    }
    const Status status = sleeper.memory().restore_weights();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kConflict);
    EXPECT_NE(status.error().message.find(file_), std::string::npos) << status.error().message;
    // They are awake and undefined: a reload ends that.
    ASSERT_TRUE(sleeper.memory().restore_kv_cache().ok());
    ASSERT_TRUE(sleeper.memory().reload_weights({.weights_path = models_dir() + "qwen3-tied"}).ok());
    EXPECT_TRUE(same_bits(sleeper.logits(), Sleeper(models_dir() + "qwen3-tied", options()).logits()));
  }
}

TEST_F(ChangedCheckpointTest, InPlaceWhileAwakeIsBackedUp) {
  Sleeper sleeper(model_.path(), options());
  const std::vector<float> before = sleeper.logits();
  change_in_place();
  ASSERT_TRUE(sleeper.sleep(true).ok());
  ASSERT_TRUE(sleeper.wake().ok());
  EXPECT_TRUE(same_bits(before, sleeper.logits()));
}

TEST_F(ChangedCheckpointTest, ReplacedOrRemovedIsNoChange) {
  Sleeper sleeper(model_.path(), options());
  const std::vector<float> before = sleeper.logits();
  for (const bool replaced : {true, false}) {
    ASSERT_TRUE(sleeper.sleep(true).ok());
    if (replaced) {
      TempDir other;
      copy_model("qwen3-tied", other, perturb);
      std::filesystem::rename(other.path() + "/model.safetensors", file_);
    } else {
      std::filesystem::remove(file_);
    }
    ASSERT_TRUE(sleeper.wake().ok());
    EXPECT_TRUE(same_bits(before, sleeper.logits()));
  }
}

TEST_F(SleepTest, AWakeThatFindsNoMemoryMayBeTriedAgain) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space for itself";
#endif
  Sleeper sleeper(models_dir() + "qwen2-untied", options());
  const std::vector<float> before = sleeper.logits();
  ASSERT_TRUE(sleeper.sleep(true).ok());
  rlimit all{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &all), 0);
  int failures = 0;
  for (const size_t spare_kib : {64, 256, 512, 768, 1024, 2048}) {  // early, while scratch is made, and late
    rlimit little = all;
    little.rlim_cur = virtual_bytes() + spare_kib * 1024;
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
    const Status status = sleeper.memory().restore_weights();
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &all), 0);
    if (status.ok()) break;
    EXPECT_EQ(status.error().kind, ErrorKind::kInternal);
    ++failures;
  }
  EXPECT_GT(failures, 1);
  ASSERT_TRUE(sleeper.wake().ok());
  EXPECT_TRUE(same_bits(before, sleeper.logits()));
}

TEST_F(SleepTest, MemoryIsGivenBack) {
  // 40 MB of weights and 16 MB of keys and values, so that what else happens in the process is small beside it.
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 8192, "hidden_size": 512,
      "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8, "max_position_embeddings": 512,
      "tie_word_embeddings": true})";
  model_.write("config.json", config);
  std::vector<TestTensor> tensors;
  const auto add = [&](const std::string& name, int rows, int columns) {
    const std::string shape = columns == 0 ? fmt::format("[{}]", rows) : fmt::format("[{}, {}]", rows, columns);
    tensors.push_back({name, "BF16", shape, std::string(static_cast<size_t>(rows * std::max(columns, 1)) * 2, '\x3c')});
  };
  add("model.embed_tokens.weight", 8192, 512);
  add("model.norm.weight", 512, 0);
  for (int i = 0; i < 4; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(layer + "self_attn." + name + ".weight", 512, 512);
    for (const char* name : {"gate_proj", "up_proj"}) add(layer + "mlp." + name + ".weight", 2048, 512);
    add(layer + "mlp.down_proj.weight", 512, 2048);
    for (const char* name : {"input_layernorm", "post_attention_layernorm"}) add(layer + name + ".weight", 512, 0);
  }
  model_.write("model.safetensors", safetensors_of(tensors));
  tensors.clear();
  tensors.shrink_to_fit();

  Sleeper sleeper(model_.path(), options());
  RunnerMemory& memory = sleeper.memory();
  sleeper.logits();
  KvCache& cache = sleeper.runner().kv_cache();
  std::vector<int32_t> all_blocks;
  for (int32_t block = 0; block < cache.shape().blocks; ++block) all_blocks.push_back(block);
  cache.zero_blocks(all_blocks);
  const size_t awake = resident_bytes(), kv_bytes = memory.kv_cache_bytes(), weight_bytes = memory.weight_bytes();
  EXPECT_GE(weight_bytes, 40u << 20);
  EXPECT_GE(kv_bytes, 8u << 20);
  const size_t slack = 4 << 20;
  size_t asleep = 0;
  for (int cycle = 0; cycle < 5; ++cycle) {
    const bool backed_up = cycle % 2 == 0;
    ASSERT_TRUE(sleeper.sleep(backed_up).ok());
    EXPECT_EQ(memory.kv_cache_bytes(), 0u);
    EXPECT_EQ(memory.weight_bytes(), weight_bytes);
    if (cycle == 0) asleep = resident_bytes();
    EXPECT_LE(resident_bytes() + weight_bytes + kv_bytes, awake + slack) << cycle;
    EXPECT_LE(resident_bytes(), asleep + slack) << cycle;
    ASSERT_TRUE(sleeper.wake().ok());
    EXPECT_EQ(memory.kv_cache_bytes(), 0u);
    if (!backed_up) {
      ASSERT_TRUE(memory.reload_weights({}).ok());
    }
    sleeper.logits();
    EXPECT_LE(resident_bytes(), awake + slack) << cycle;  // the mapped checkpoint does not stay beside the weights
  }
}

}  // namespace
}  // namespace unspool
