// A model's shape and numerics, from Hugging Face's config.json.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "json/json.h"
#include "models/rope_config.h"
#include "tensor/dtype.h"

namespace unspool {

// What may differ from layer to layer.
struct LayerConfig {
  int64_t window = 0;  // keys that a token sees, itself among them; 0: all
  int rotation = 0;    // 0: rope, 1: local_rope, -1: none
  bool has_experts = false;
};

// Of the layers that have experts.
struct MoeConfig {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  int64_t inner = 0;         // an expert's intermediate size
  int64_t shared_inner = 0;  // that of the expert that takes every row; 0: there is none
  bool normalize = false;    // norm_topk_prob
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM", as in config.json's architectures
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;             // even; num_attention_heads * head_dim need not be hidden_size
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;
  std::vector<LayerConfig> layers;  // [num_hidden_layers]
  MoeConfig moe;
  bool has_experts() const {
    return std::any_of(layers.begin(), layers.end(), [](const LayerConfig& layer) { return layer.has_experts; });
  }

  // What the family or the file switches on.
  bool tie_word_embeddings = false;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // an RMS norm over each head of q and k, before the rotation
  Activation activation = Activation::kSilu;
  double norm_offset = 0.0;                              // what is added to the weights of norms
  bool scale_embeddings = false;                         // by the root of hidden_size
  double attention_scale = 0.0;                          // of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0.0, logits_softcap = 0.0;  // 0: none

  std::optional<DType> dtype;  // of the checkpoint as its config states it; nullopt where it does not
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;
  std::optional<int64_t> pad_token_id;
};

// Refuses by name what would otherwise be served wrongly: other architectures, activations and rope types, quantised
// checkpoints, switches that the architecture does not have or that contradict each other. `overrides` (--hf-overrides)
// is an object whose fields replace the file's.
Result<ModelConfig> parse_model_config(const JsonValue& config, const JsonValue* overrides = nullptr);
// Reads DIR/config.json.
Result<ModelConfig> load_model_config(const std::string& dir, const JsonValue* overrides = nullptr);

}  // namespace unspool
