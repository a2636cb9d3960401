// What an architecture fixes, what its config may switch, and how its layers are built: one short file each in
// families/, as transformers' configuration and modeling files have it.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "layers/decoder_layer.h"
#include "layers/weight_set.h"
#include "models/config_reader.h"
#include "models/model_config.h"
#include "models/rope_config.h"

namespace unspool {

struct Family {
  std::string_view architecture;  // as in config.json's architectures
  // What holds where config.json does not have the field.
  std::optional<int64_t> default_head_dim = {};  // none: hidden_size / num_attention_heads
  std::optional<int64_t> default_kv_heads = {};  // none: num_attention_heads
  double default_rms_norm_eps = 1e-6;
  bool ties_by_default = false;
  // The one activation, as transformers calls it, and the field that must have that name.
  std::string_view activation = "silu", activation_key = "hidden_act";
  // Sizes are filled in. The second is of layers that slide, where they have one of their own.
  RopeFamily rope = {};
  std::optional<RopeFamily> local_rope = {};
  // Reads the switches into a config that has the sizes, and one entry a layer.
  Status (*read_switches)(const ConfigReader& config, ModelConfig& model);
  // Adds a layer's tensors to the weights, in the order in which they are loaded.
  Result<DecoderLayer> (*add_layer)(WeightSet& weights, const ModelConfig& model, int64_t index);
};

// attention_bias: of q, k, v and o together.
Status read_attention_bias(const ConfigReader& config, ModelConfig& model);

Family gemma2_family();
Family gemma3_family();
Family llama_family();
Family mistral_family();
Family olmo2_family();
Family phi3_family();
Family qwen2_family();
Family qwen2_moe_family();
Family qwen3_family();
Family qwen3_moe_family();
Family smollm3_family();

std::span<const Family> families();
const Family* find_family(std::string_view architecture);

}  // namespace unspool
