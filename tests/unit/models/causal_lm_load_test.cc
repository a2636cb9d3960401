// A model takes exactly its tensors: what is missing, surplus or mis-shaped is named.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "../weights/weights_test_util.h"
#include "backend/cpu/cpu_backend.h"
#include "models/causal_lm.h"

namespace unspool {
namespace {

class CausalLmLoadTest : public testing::Test {
 protected:
  CausalLmLoadTest() {
    config_.architecture = "Qwen3ForCausalLM";
    config_.vocab_size = 5;
    config_.hidden_size = 6;
    config_.intermediate_size = 3;
    config_.num_hidden_layers = 2;
    config_.layers.resize(2);
    config_.num_attention_heads = 2;
    config_.num_key_value_heads = 1;
    config_.head_dim = 4;
    config_.rope.rotary_dim = 4;
    config_.max_position_embeddings = 64;
    config_.qkv_bias = true;
    config_.qk_norm = true;
    add("model.embed_tokens.weight", {5, 6});
    for (int i = 0; i < 2; ++i) {
      const std::string layer = fmt::format("model.layers.{}.", i), attention = layer + "self_attn.",
                        mlp = layer + "mlp.";
      add(layer + "input_layernorm.weight", {6});
      add(layer + "post_attention_layernorm.weight", {6});
      for (const auto& [name, rows] : {std::pair{"q_proj", 8}, std::pair{"k_proj", 4}, std::pair{"v_proj", 4}}) {
        add(attention + name + ".weight", {rows, 6});
        add(attention + name + ".bias", {rows});
      }
      add(attention + "q_norm.weight", {4});
      add(attention + "k_norm.weight", {4});
      add(attention + "o_proj.weight", {6, 8});
      add(mlp + "gate_proj.weight", {3, 6});
      add(mlp + "up_proj.weight", {3, 6});
      add(mlp + "down_proj.weight", {6, 3});
    }
    add("model.norm.weight", {6});
    add("lm_head.weight", {5, 6});
  }

  void add(const std::string& name, const std::vector<int>& shape) {
    size_t elements = 1;
    for (const int extent : shape) elements *= static_cast<size_t>(extent);
    tensors_.push_back({name, "BF16", fmt::format("[{}]", fmt::join(shape, ",")), std::string(elements * 2, '\0')});
  }
  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const TestTensor& tensor) { return tensor.name == name; });
  }

  Result<std::unique_ptr<CausalLm>> load() {
    const TempDir dir;
    dir.write("model.safetensors", safetensors_of(tensors_));
    const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
    return CausalLm::load(config_, checkpoint, *backend_, {.max_tokens = 4, .max_positions = 64, .max_logits_rows = 4},
                          [this](size_t bytes) { progress_ += bytes; });
  }
  std::string error() {
    const auto model = load();
    return model.ok() ? "" : model.error().message;
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = cpu::CpuBackend::create(pool_, "").value();
  ModelConfig config_;
  std::vector<TestTensor> tensors_;
  size_t progress_ = 0;
};

TEST_F(CausalLmLoadTest, ExactlyItsTensors) {
  const auto model = load();
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_GT((*model)->weight_bytes(), 0u);
  size_t bytes = 0;
  for (const auto& tensor : tensors_) bytes += tensor.bytes.size();
  EXPECT_EQ(progress_, bytes);
}

TEST_F(CausalLmLoadTest, EveryMissingTensorIsNamed) {
  const std::vector<TestTensor> all = tensors_;
  for (const auto& missing : all) {
    tensors_ = all;
    remove(missing.name);
    EXPECT_NE(error().find(missing.name), std::string::npos) << missing.name << ": " << error();
  }
}

TEST_F(CausalLmLoadTest, EveryMisShapedTensorIsNamed) {
  const std::vector<TestTensor> all = tensors_;
  for (size_t i = 0; i < all.size(); ++i) {
    tensors_ = all;
    tensors_[i].shape = fmt::format("[{}]", tensors_[i].bytes.size() / 2 + 1);
    tensors_[i].bytes.append(2, '\0');
    const std::string message = error();
    EXPECT_NE(message.find(all[i].name), std::string::npos) << all[i].name << ": " << message;
  }
}

TEST_F(CausalLmLoadTest, SurplusTensorsAreNamed) {
  add("model.layers.2.input_layernorm.weight", {6});
  add("model.layers.0.self_attn.o_proj.bias", {6});
  const std::string message = error();
  EXPECT_NE(message.find("model.layers.2.input_layernorm.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("model.layers.0.self_attn.o_proj.bias"), std::string::npos) << message;
}

TEST_F(CausalLmLoadTest, AnIntegerTensorIsRefused) {
  for (auto& tensor : tensors_)
    if (tensor.name == "model.norm.weight") tensor.dtype = "I16";
  EXPECT_NE(error().find("model.norm.weight"), std::string::npos) << error();
}

TEST_F(CausalLmLoadTest, ATiedHeadNeedNotBeThereAndMayBe) {
  config_.tie_word_embeddings = true;
  EXPECT_EQ(error(), "");
  remove("lm_head.weight");
  EXPECT_EQ(error(), "");
}

TEST_F(CausalLmLoadTest, ACheckpointThatIsCutShortWhileItIsRead) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_of(tensors_));
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
  const auto cut = [&](size_t) { std::filesystem::resize_file(dir.path() + "/model.safetensors", 0); };
  const auto model =
      CausalLm::load(config_, checkpoint, *backend_, {.max_tokens = 4, .max_positions = 64, .max_logits_rows = 4}, cut);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.error().message.find("model.safetensors was changed while it was read"), std::string::npos);
}

TEST_F(CausalLmLoadTest, OldRotaryBuffersAreNoSurplus) {
  add("model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  EXPECT_EQ(error(), "");
}

}  // namespace
}  // namespace unspool
