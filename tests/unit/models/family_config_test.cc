// What each family reads of config.json, and what it refuses by name.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "models/model_config.h"

namespace unspool {
namespace {

// A config of `layers` layers with more fields.
std::string config_of(const std::string& architecture, const std::string& fields = "", int layers = 4) {
  return R"({"architectures": [")" + architecture + R"("], "vocab_size": 320, "hidden_size": 64,
    "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
    "num_hidden_layers": )" +
         std::to_string(layers) + (fields.empty() ? "" : ", " + fields) + "}";
}

Result<ModelConfig> parse(const std::string& text) {
  const auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return parse_model_config(document->root());
}

ModelConfig parsed(const std::string& text) {
  auto config = parse(text);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? std::move(config).value() : ModelConfig();
}

void expect_refused(const std::string& text, const std::string& message) {
  const auto config = parse(text);
  ASSERT_FALSE(config.ok()) << text;
  EXPECT_NE(config.error().message.find(message), std::string::npos) << config.error().message;
}

std::vector<int64_t> windows(const std::string& text) {
  std::vector<int64_t> all;
  for (const LayerConfig& layer : parsed(text).layers) all.push_back(layer.window);
  return all;
}

std::vector<int> rotations(const std::string& text) {
  std::vector<int> all;
  for (const LayerConfig& layer : parsed(text).layers) all.push_back(layer.rotation);
  return all;
}

using Windows = std::vector<int64_t>;
constexpr const char* kTypes = R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention",
  "full_attention"])";

TEST(FamilyConfigTest, MistralSlidesEverywhereUnlessNull) {
  const std::string mistral = "MistralForCausalLM";
  EXPECT_EQ(windows(config_of(mistral)), Windows(4, 4096));  // its default
  EXPECT_EQ(windows(config_of(mistral, R"("sliding_window": 8)")), Windows(4, 8));
  EXPECT_EQ(windows(config_of(mistral, R"("sliding_window": null)")), Windows(4, 0));
  expect_refused(config_of(mistral, kTypes),
                 "layer_types: expected sliding_attention for layer 0 of MistralForCausalLM, got full_attention");
  expect_refused(config_of(mistral, R"("sliding_window": null, )" + std::string(kTypes)),
                 "layer_types: expected full_attention for layer 1 of MistralForCausalLM, got sliding_attention");
  expect_refused(config_of(mistral, R"("sliding_window": 0)"), "sliding_window: expected an integer from 1");
}

TEST(FamilyConfigTest, QwensSlideWhereSwitchedOn) {
  for (const std::string qwen : {"Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const auto with = [&](const std::string& fields) { return config_of(qwen, R"("sliding_window": 8, )" + fields); };
    EXPECT_EQ(windows(with(R"("max_window_layers": 0)")), Windows(4, 0));
    EXPECT_EQ(windows(with(R"("use_sliding_window": false, "max_window_layers": 0)")), Windows(4, 0));
    EXPECT_EQ(windows(with(R"("use_sliding_window": true)")), Windows(4, 0));  // from layer 28 on
    EXPECT_EQ(windows(with(R"("use_sliding_window": true, "max_window_layers": 4)")), Windows(4, 0));
    EXPECT_EQ(windows(with(R"("use_sliding_window": true, "max_window_layers": 2)")), (Windows{0, 0, 8, 8}));
    EXPECT_EQ(windows(with(R"("use_sliding_window": true, "max_window_layers": 0)")), Windows(4, 8));
    EXPECT_EQ(windows(with(R"("use_sliding_window": true, )" + std::string(kTypes))), (Windows{0, 8, 8, 0}));
    EXPECT_EQ(windows(config_of(qwen, R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 0)")),
              Windows(4, 0));
    expect_refused(with(kTypes), "layer_types: layer 1 is sliding_attention, but use_sliding_window is not true");
    expect_refused(with(R"("use_sliding_window": true, "layer_types": ["full_attention"])"),
                   "layer_types: expected a list of 4 names");
    expect_refused(
        with(R"("layer_types": ["full_attention", "chunked_attention", "full_attention", "full_attention"])"),
        "layer_types: unsupported \"chunked_attention\"");
  }
}

TEST(FamilyConfigTest, FamiliesWithoutWindows) {
  for (const std::string family : {"LlamaForCausalLM", "Olmo2ForCausalLM"}) {
    EXPECT_EQ(windows(config_of(family)), Windows(4, 0));
    EXPECT_EQ(windows(config_of(family, R"("sliding_window": null)")), Windows(4, 0));
    expect_refused(config_of(family, R"("sliding_window": 100)"),
                   "sliding_window: expected null, got 100: " + family + " has no windows");
    expect_refused(config_of(family, kTypes), "layer_types: expected full_attention for layer 1 of " + family);
  }
}

TEST(FamilyConfigTest, Gemma2) {
  const ModelConfig config = parsed(config_of("Gemma2ForCausalLM", R"("query_pre_attn_scalar": 144)"));
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_TRUE(config.tie_word_embeddings && config.scale_embeddings);
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.norm_offset, 1.0);
  EXPECT_EQ(config.attention_scale, 1.0 / 12.0);
  EXPECT_EQ(config.attention_softcap, 50.0);
  EXPECT_EQ(config.logits_softcap, 30.0);
  EXPECT_FALSE(config.qk_norm);
  const std::string no_caps = R"("attn_logit_softcapping": null, "final_logit_softcapping": null)";
  EXPECT_EQ(parsed(config_of("Gemma2ForCausalLM", no_caps)).attention_softcap, 0.0);
  EXPECT_EQ(parsed(config_of("Gemma2ForCausalLM", no_caps)).logits_softcap, 0.0);
  EXPECT_EQ(windows(config_of("Gemma2ForCausalLM", R"("sliding_window": 8)")), (Windows{8, 0, 8, 0}));
  EXPECT_EQ(windows(config_of("Gemma2ForCausalLM", R"("sliding_window": 8, )" + std::string(kTypes))),
            (Windows{0, 8, 8, 0}));
  expect_refused(config_of("Gemma2ForCausalLM", R"("sliding_window": null)"),
                 "layer 0 is sliding_attention, but sliding_window is null");
  expect_refused(config_of("Gemma2ForCausalLM", R"("hidden_activation": "gelu")"),
                 "unsupported hidden_activation \"gelu\"; supported: gelu_pytorch_tanh");
  expect_refused(config_of("Gemma2ForCausalLM", R"("use_bidirectional_attention": true)"),
                 "use_bidirectional_attention: expected false");
  expect_refused(config_of("Gemma2ForCausalLM", R"("final_logit_softcapping": 0)"),
                 "final_logit_softcapping: expected a number above 0");
  expect_refused(config_of("Gemma2ForCausalLM", R"("query_pre_attn_scalar": -1)"),
                 "query_pre_attn_scalar: expected a number above 0");
}

TEST(FamilyConfigTest, Gemma3) {
  const std::string gemma = "Gemma3ForCausalLM";
  const ModelConfig config = parsed(config_of(gemma, R"("sliding_window": 8)", 7));
  EXPECT_TRUE(config.qk_norm);
  EXPECT_EQ(config.attention_softcap, 0.0);
  EXPECT_EQ(config.logits_softcap, 0.0);
  EXPECT_EQ(config.rope.theta, 1e6);
  ASSERT_TRUE(config.local_rope.has_value());
  EXPECT_EQ(config.local_rope->theta, 1e4);
  const std::string legacy =
      R"("sliding_window": 8, "sliding_window_pattern": 3, "rope_theta": 5e5, "rope_local_base_freq": 7e3,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  EXPECT_EQ(windows(config_of(gemma, legacy)), (Windows{8, 8, 0, 8}));
  EXPECT_EQ(rotations(config_of(gemma, legacy)), (std::vector<int>{1, 1, 0, 1}));
  const ModelConfig old = parsed(config_of(gemma, legacy));
  EXPECT_EQ(old.rope.theta, 5e5);
  EXPECT_EQ(old.rope.type, RopeType::kLinear);
  EXPECT_EQ(old.local_rope->theta, 7e3);
  EXPECT_EQ(old.local_rope->type, RopeType::kDefault);
  EXPECT_EQ(windows(config_of(gemma, R"("sliding_window": 8)", 7)), (Windows{8, 8, 8, 8, 8, 0, 8}));
  expect_refused(config_of(gemma, R"("attn_logit_softcapping": 50.0)"), "attn_logit_softcapping: expected null");
  expect_refused(config_of(gemma, R"("sliding_window_pattern": 0)"), "sliding_window_pattern: expected an integer");
  expect_refused(config_of("Gemma3ForConditionalGeneration"),
                 "unsupported architecture Gemma3ForConditionalGeneration");
}

TEST(FamilyConfigTest, Olmo2) {
  const ModelConfig config = parsed(config_of("Olmo2ForCausalLM", R"("attention_bias": true)"));
  EXPECT_TRUE(config.qk_norm && config.qkv_bias && config.o_bias);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  expect_refused(config_of("Olmo2ForCausalLM", R"("clip_qkv": 8.0)"), "clip_qkv: expected null");
}

TEST(FamilyConfigTest, Phi3) {
  EXPECT_EQ(windows(config_of("Phi3ForCausalLM")), Windows(4, 0));
  EXPECT_EQ(windows(config_of("Phi3ForCausalLM", R"("sliding_window": 2047)")), Windows(4, 2047));
  EXPECT_EQ(parsed(config_of("Phi3ForCausalLM")).rms_norm_eps, 1e-5);
  expect_refused(config_of("Phi3ForCausalLM", R"("hidden_act": "gelu")"), "unsupported hidden_act");
}

TEST(FamilyConfigTest, SmolLM3) {
  const std::string smollm = "SmolLM3ForCausalLM";
  EXPECT_EQ(rotations(config_of(smollm)), (std::vector<int>{0, 0, 0, -1}));
  EXPECT_EQ(rotations(config_of(smollm, R"("no_rope_layer_interval": 2)")), (std::vector<int>{0, -1, 0, -1}));
  EXPECT_EQ(rotations(config_of(smollm, R"("no_rope_layers": [0, 1, 1, 0])")), (std::vector<int>{-1, 0, 0, -1}));
  EXPECT_EQ(parsed(config_of(smollm)).rope.theta, 2e6);
  EXPECT_TRUE(parsed(config_of(smollm)).tie_word_embeddings);
  const std::string slides = R"("use_sliding_window": true, "sliding_window": 8)";
  EXPECT_EQ(windows(config_of(smollm, slides)), (Windows{0, 0, 0, 8}));
  EXPECT_EQ(windows(config_of(smollm, R"("sliding_window": 8)")), Windows(4, 0));
  expect_refused(config_of(smollm, R"("no_rope_layers": [1, 1])"),
                 "no_rope_layers: expected a list of 4 numbers, each 0 or 1");
  expect_refused(config_of(smollm, R"("no_rope_layers": [1, 1, 2, 0])"), "no_rope_layers: expected a list");
  expect_refused(config_of(smollm, R"("no_rope_layer_interval": 0)"), "no_rope_layer_interval: expected an integer");
}

TEST(FamilyConfigTest, KeyValueHeadsWhereTheConfigHasNone) {
  const auto heads = [](const std::string& architecture, const std::string& field) {
    return parsed(R"({"architectures": [")" + architecture + R"("], "vocab_size": 320, "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 16, "max_position_embeddings": 4096, "sliding_window": 8,
      "num_hidden_layers": 2)" +
                  field + "}")
        .num_key_value_heads;
  };
  EXPECT_EQ(heads("MistralForCausalLM", ""), 8);
  EXPECT_EQ(heads("MistralForCausalLM", R"(, "num_key_value_heads": null)"), 16);
  EXPECT_EQ(heads("Gemma2ForCausalLM", ""), 4);
  EXPECT_EQ(heads("Phi3ForCausalLM", ""), 16);
}

}  // namespace
}  // namespace unspool
