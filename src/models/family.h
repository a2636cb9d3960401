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

namespace unspool {

struct Family {
  std::string_view architecture;                 // as in config.json's architectures
  std::optional<int64_t> default_head_dim = {};  // none: hidden_size / num_attention_heads
  RopeFamily rope = {};                          // its sizes are the config's
  std::optional<RopeFamily> local_rope = {};     // of layers that rotate otherwise (LayerConfig::rotation 1)
  // Reads the switches into a config that has the sizes, and one entry a layer.
  Status (*read_switches)(const ConfigReader& config, ModelConfig& model);
  // Adds a layer's tensors to the weights, in the order in which they are loaded.
  Result<DecoderLayer> (*add_layer)(WeightSet& weights, const ModelConfig& model, int64_t index);
};

Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();

std::span<const Family> families();
const Family* find_family(std::string_view architecture);

}  // namespace unspool
