// The fields of config.json that make some of a model's layers mixtures of experts.
#pragma once

#include "models/config_reader.h"
#include "models/model_config.h"

namespace unspool {

// What transformers takes where the file has no such field.
struct MoeDefaults {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  int64_t inner = 0;
  int64_t shared_inner = 0;  // 0: the family has no expert that takes every row, and the field is not read
};

// num_experts (num_local_experts in newer files), num_experts_per_tok, moe_intermediate_size,
// shared_expert_intermediate_size, norm_topk_prob; decoder_sparse_step and mlp_only_layers say which layers.
Status read_moe(const ConfigReader& config, const MoeDefaults& defaults, ModelConfig& model);

}  // namespace unspool
