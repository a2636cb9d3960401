#include "models/model_config.h"

#include <gtest/gtest.h>

#include <string>

namespace unspool {
namespace {

// The fields that matter of configs as they are published.
constexpr const char* kLlama32 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
  "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0",
  "use_cache": true, "vocab_size": 128256})";

constexpr const char* kQwen25 = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
  "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 14,
  "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kQwen3 = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
  "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

constexpr const char* kSmolLM2 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
  "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1,
  "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49152})";

constexpr const char* kQwen15Moe = R"({
  "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "decoder_sparse_step": 1, "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 8192, "max_window_layers": 21,
  "model_type": "qwen2_moe", "moe_intermediate_size": 1408, "norm_topk_prob": false, "num_attention_heads": 16,
  "num_experts": 60, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
  "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
  "shared_expert_intermediate_size": 5632, "sliding_window": 32768, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "transformers_version": "4.39.0.dev0", "use_cache": true, "use_sliding_window": false,
  "vocab_size": 151936})";

constexpr const char* kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
  "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
  "initializer_range": 0.02, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
  "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
  "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

Result<ModelConfig> parse(const std::string& text, const std::string& overrides = "") {
  const auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  if (overrides.empty()) return parse_model_config(document->root());
  const auto overrides_document = JsonDocument::parse(overrides);
  EXPECT_TRUE(overrides_document.ok()) << overrides;
  const JsonValue root = overrides_document->root();
  return parse_model_config(document->root(), &root);
}

ModelConfig parsed(const std::string& text, const std::string& overrides = "") {
  auto config = parse(text, overrides);
  EXPECT_TRUE(config.ok()) << config.error().message;
  return config.ok() ? std::move(config).value() : ModelConfig();
}

// The base with fields replaced is refused, and the message says so.
void expect_refused(const std::string& base, const std::string& overrides, const std::string& part) {
  const auto config = parse(base, overrides);
  ASSERT_FALSE(config.ok()) << overrides;
  EXPECT_EQ(config.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(config.error().message.find(part), std::string::npos) << config.error().message;
}

TEST(ModelConfigTest, Llama32) {
  const ModelConfig config = parsed(kLlama32);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.hidden_size, 2048);
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_EQ(config.num_hidden_layers, 16);
  EXPECT_EQ(config.num_attention_heads, 32);
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.max_position_embeddings, 131072);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.rope.factor, 32.0);
  EXPECT_EQ(config.rope.low_freq_factor, 1.0);
  EXPECT_EQ(config.rope.high_freq_factor, 4.0);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 8192);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.o_bias || config.mlp_bias || config.qk_norm);
  EXPECT_EQ(config.dtype, DType::kBFloat16);
  EXPECT_EQ(config.bos_token_id, 128000);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{128001, 128008, 128009}));
  EXPECT_EQ(config.pad_token_id, std::nullopt);
}

TEST(ModelConfigTest, Qwen25) {
  const ModelConfig config = parsed(kQwen25);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias || config.mlp_bias || config.qk_norm);
  EXPECT_EQ(config.rope.type, RopeType::kDefault);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{151645}));
}

TEST(ModelConfigTest, Qwen3) {
  const ModelConfig config = parsed(kQwen3);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.qkv_bias || config.o_bias);
  EXPECT_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(parsed(kQwen3, R"({"head_dim": null})").head_dim, 128);  // the family's default, not hidden_size / heads
}

TEST(ModelConfigTest, SmolLM2) {
  const ModelConfig config = parsed(kSmolLM2);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.num_key_value_heads, 3);
  EXPECT_EQ(config.rope.theta, 1e5);
  EXPECT_EQ(config.pad_token_id, 2);
}

TEST(ModelConfigTest, NewSpellingSaysTheSame) {
  const ModelConfig config = parsed(kLlama32, R"({"rope_theta": null, "rope_scaling": null, "torch_dtype": null,
    "dtype": "float16", "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 32.0,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(config.rope.theta, 500000.0);
  EXPECT_EQ(config.rope.factor, 32.0);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 8192);
  EXPECT_EQ(config.dtype, DType::kFloat16);
  const ModelConfig plain =
      parsed(kSmolLM2, R"({"rope_theta": null, "rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}})");
  EXPECT_EQ(plain.rope.type, RopeType::kDefault);
  EXPECT_EQ(plain.rope.theta, 7.0);
}

TEST(ModelConfigTest, LegacyTypeKeyOfRopeScaling) {
  const ModelConfig config = parsed(kLlama32, R"({"rope_scaling": {"factor": 8, "high_freq_factor": 4.0,
    "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "type": "llama3"}})");
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_EQ(config.rope.factor, 8.0);
}

TEST(ModelConfigTest, SpellingsThatDisagree) {
  const std::string both = R"({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}})";
  EXPECT_EQ(parsed(kSmolLM2, both).rope.theta, 5.0);  // the overridden one wins
  std::string file = kSmolLM2;
  file.insert(1, R"("rope_parameters": {"rope_type": "default", "rope_theta": 5.0},)");
  expect_refused(file, "{}", "rope_theta is 100000 at the top level and rope_parameters.rope_theta is 5");
  EXPECT_EQ(parsed(file, R"({"rope_theta": 9.0})").rope.theta, 9.0);
  expect_refused(kSmolLM2, R"({"rope_scaling": {"rope_type": "default", "type": "llama3"}})", "remove one of them");
  expect_refused(kSmolLM2, R"({"rope_scaling": {"rope_type": "default"}, "rope_parameters": {"rope_type": "yarn"}})",
                 "rope_parameters and rope_scaling are both given and differ");
}

TEST(ModelConfigTest, RefusesOtherRopeTypesByName) {
  for (const std::string type : {"ntk", "proportional", "mrope", ""}) {
    const std::string inner = "\": \"" + type + R"(", "factor": 2.0, "rope_theta": 100000.0}})";
    for (const std::string spelling :
         {R"({"rope_scaling": {"type)", R"({"rope_scaling": {"rope_type)", R"({"rope_parameters": {"rope_type)"}) {
      expect_refused(kSmolLM2, spelling + inner, "unsupported rope type \"" + type + "\"; supported: default, linear,");
    }
  }
  expect_refused(kSmolLM2, R"({"rope_scaling": {"factor": 2.0}})", "rope_scaling has no rope_type");
  expect_refused(kSmolLM2, R"({"rope_scaling": "linear"})", "rope_scaling: expected an object, got \"linear\"");
  expect_refused(kSmolLM2, R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", "per layer type");
  expect_refused(kSmolLM2, R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: expected 1, got 0.5");
  expect_refused(kSmolLM2, R"({"rope_parameters": {"partial_rotary_factor": 0.5}})", "partial_rotary_factor");
}

TEST(ModelConfigTest, RefusesIncompleteOrAbsurdLlama3) {
  const auto scaling = [](const std::string& fields) {
    return R"({"rope_scaling": {"rope_type": "llama3")" + fields + "}}";
  };
  const std::string factors = R"(, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0)";
  expect_refused(kLlama32, scaling(""), "rope_scaling.factor is missing");
  expect_refused(kLlama32, scaling(factors + R"(, "original_max_position_embeddings": 0)"), "of at least 1");
  expect_refused(kLlama32, scaling(factors + R"(, "original_max_position_embeddings": 1.5)"), "expected an integer");
  expect_refused(kLlama32, scaling(R"(, "factor": "8")"), "rope_scaling.factor: expected a number");
  expect_refused(kLlama32, scaling(R"(, "factor": 0.5)"), "rope_scaling.factor: expected a number");
  expect_refused(kLlama32, scaling(R"(, "factor": 8, "low_freq_factor": 4.0, "high_freq_factor": 4.0)"),
                 "expected high_freq_factor above low_freq_factor, got 4 and 4");
}

TEST(ModelConfigTest, RefusesOtherArchitecturesByName) {
  const std::string supported = "; supported: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM";
  expect_refused(kLlama32, R"({"architectures": ["GemmaForCausalLM"]})",
                 "unsupported architecture GemmaForCausalLM" + supported);
  expect_refused(kLlama32, R"({"architectures": []})", "unsupported architecture (none)");
  expect_refused(kLlama32, R"({"architectures": null})", "architectures is missing" + supported);
  expect_refused(kLlama32, R"({"architectures": "LlamaForCausalLM"})", "architectures: expected a list of names");
  EXPECT_EQ(parsed(kLlama32, R"({"architectures": ["X", "Qwen2ForCausalLM"]})").architecture, "Qwen2ForCausalLM");
}

TEST(ModelConfigTest, BiasesFollowTheFamily) {
  const ModelConfig llama = parsed(kLlama32, R"({"attention_bias": true, "mlp_bias": true})");
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const ModelConfig qwen2 = parsed(kQwen25, R"({"attention_bias": false, "mlp_bias": true})");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias || qwen2.mlp_bias);
  const ModelConfig qwen3 = parsed(kQwen3, R"({"attention_bias": true})");
  EXPECT_TRUE(qwen3.qkv_bias && qwen3.o_bias);
  const std::string mistral =
      R"({"architectures": ["MistralForCausalLM"], "sliding_window": null, "attention_bias": true})";
  EXPECT_FALSE(parsed(kLlama32, mistral).qkv_bias);
}

TEST(ModelConfigTest, Defaults) {
  const ModelConfig config = parsed(R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 4096})");
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope.theta, 10000.0);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.dtype, std::nullopt);
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(ModelConfigTest, RefusesWhatWouldBeServedWrongly) {
  expect_refused(kLlama32, R"({"quantization_config": {"quant_method": "fp8"}})", "quant_method \"fp8\"");
  expect_refused(kLlama32, R"({"hidden_act": "gelu"})", "unsupported hidden_act \"gelu\"; supported: silu");
  expect_refused(kLlama32, R"({"torch_dtype": "float64"})", "unsupported torch_dtype \"float64\"");
  expect_refused(kLlama32, R"({"dtype": "int8"})", "unsupported dtype \"int8\"");
}

TEST(ModelConfigTest, RangesNameFieldExpectedAndGot) {
  expect_refused(kLlama32, R"({"vocab_size": 0})",
                 "config.json: vocab_size: expected an integer from 1 to 4194304, got 0");
  expect_refused(kLlama32, R"({"vocab_size": null})", "vocab_size is missing");
  expect_refused(kLlama32, R"({"hidden_size": -2048})", "hidden_size: expected an integer");
  expect_refused(kLlama32, R"({"hidden_size": 2048.0})", "hidden_size: expected an integer");
  expect_refused(kLlama32, R"({"num_hidden_layers": "16"})", "num_hidden_layers: expected an integer");
  expect_refused(kLlama32, R"({"intermediate_size": 9223372036854775807})", "intermediate_size: expected");
  expect_refused(kLlama32, R"({"max_position_embeddings": 18446744073709551615})", "max_position_embeddings: expected");
  expect_refused(kLlama32, R"({"num_key_value_heads": 7})", "expected a divisor of num_attention_heads (32), got 7");
  expect_refused(kLlama32, R"({"num_key_value_heads": 0})", "num_key_value_heads: expected an integer from 1");
  expect_refused(kLlama32, R"({"head_dim": 63})", "head_dim: expected an even integer from 2 to 512, got 63");
  expect_refused(kLlama32, R"({"head_dim": 514})", "head_dim: expected an integer from 1 to 512, got 514");
  expect_refused(kSmolLM2, R"({"num_attention_heads": 10, "num_key_value_heads": 5})", "expected a multiple of");
  expect_refused(kLlama32, R"({"rms_norm_eps": 0})", "rms_norm_eps: expected a number above 0");
  expect_refused(kLlama32, R"({"rope_theta": 0})", "rope_theta: expected a number of at least 1");
  expect_refused(kLlama32, R"({"tie_word_embeddings": 1})", "tie_word_embeddings: expected true or false, got 1");
  expect_refused(kLlama32, R"({"eos_token_id": -2})", "eos_token_id: expected a token id");
  expect_refused(kLlama32, R"({"eos_token_id": ["</s>"]})", "eos_token_id: expected a token id");
  expect_refused("[]", "", "expected an object");
  expect_refused(kLlama32, "[]", "hf-overrides: expected an object");
}

TEST(ModelConfigTest, TokenIdsOutsideTheVocabularyAreLeftOut) {
  const ModelConfig config =
      parsed(kSmolLM2, R"({"pad_token_id": -1, "eos_token_id": [2, 49152], "bos_token_id": 50000})");
  EXPECT_EQ(config.pad_token_id, std::nullopt);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{2}));
  EXPECT_EQ(config.bos_token_id, std::nullopt);
}

std::vector<int> layers_with_experts(const ModelConfig& config) {
  std::vector<int> layers;
  for (size_t i = 0; i < config.layers.size(); ++i)
    if (config.layers[i].has_experts) layers.push_back(static_cast<int>(i));
  return layers;
}

TEST(ModelConfigTest, MixturesOfExperts) {
  const ModelConfig qwen2 = parsed(kQwen15Moe);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.qk_norm);
  EXPECT_EQ(qwen2.moe.num_experts, 60);
  EXPECT_EQ(qwen2.moe.top_k, 4);
  EXPECT_EQ(qwen2.moe.inner, 1408);
  EXPECT_EQ(qwen2.moe.shared_inner, 5632);
  EXPECT_FALSE(qwen2.moe.normalize);
  EXPECT_EQ(layers_with_experts(qwen2).size(), 24u);
  EXPECT_FALSE(parsed(kQwen15Moe, R"({"qkv_bias": false})").qkv_bias);

  const ModelConfig qwen3 = parsed(kQwen3Moe);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(qwen3.moe.num_experts, 128);
  EXPECT_EQ(qwen3.moe.top_k, 8);
  EXPECT_EQ(qwen3.moe.shared_inner, 0);
  EXPECT_TRUE(qwen3.moe.normalize);
  // As transformers writes it where there is no window.
  EXPECT_EQ(parsed(kQwen15Moe, R"({"sliding_window": 0})").layers[0].window, 0);
  const ModelConfig windows = parsed(kQwen15Moe, R"({"use_sliding_window": true, "sliding_window": 99})");
  EXPECT_EQ(windows.layers[0].window, 99);
  EXPECT_EQ(windows.layers[1].window, 0);
  EXPECT_EQ(windows.layers[22].window, 0);  // max_window_layers is 21
  // As transformers 5 writes it.
  EXPECT_EQ(parsed(kQwen3Moe, R"({"num_experts": null, "num_local_experts": 16})").moe.num_experts, 16);
}

TEST(ModelConfigTest, WhichLayersHaveExperts) {
  const auto layers = [](const std::string& overrides) {
    return layers_with_experts(parsed(kQwen3Moe, "{\"num_hidden_layers\": 6, " + overrides + "}"));
  };
  EXPECT_EQ(layers(R"("decoder_sparse_step": 1)"), (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(layers(R"("decoder_sparse_step": 2)"), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(layers(R"("decoder_sparse_step": 4)"), (std::vector<int>{3}));
  EXPECT_EQ(layers(R"("mlp_only_layers": [0, 3, 7])"), (std::vector<int>{1, 2, 4, 5}));
  EXPECT_EQ(layers(R"("decoder_sparse_step": 2, "mlp_only_layers": [0, 3])"), (std::vector<int>{1, 5}));
  EXPECT_EQ(layers(R"("num_experts": 0)"), std::vector<int>());
  EXPECT_FALSE(parsed(kQwen3Moe, R"({"num_experts": 0})").has_experts());
}

TEST(ModelConfigTest, BadMixturesAreRefused) {
  for (const char* overrides :
       {R"({"num_experts": -1})", R"({"num_experts": 65536})", R"({"num_experts_per_tok": 129})",
        R"({"num_experts_per_tok": 0})", R"({"moe_intermediate_size": 0})", R"({"decoder_sparse_step": 0})",
        R"({"mlp_only_layers": [-1]})", R"({"mlp_only_layers": ["a"]})", R"({"mlp_only_layers": 3})",
        R"({"norm_topk_prob": "yes"})"})
    EXPECT_FALSE(parse(kQwen3Moe, overrides).ok()) << overrides;
  EXPECT_FALSE(parse(kQwen15Moe, R"({"shared_expert_intermediate_size": 0})").ok());
}

}  // namespace
}  // namespace unspool
