// The parts of a decoder layer, added to a model's weights under the names that most checkpoints have.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "layers/decoder_layer.h"
#include "layers/weight_set.h"
#include "models/model_config.h"

namespace unspool {

class LayerBuilder {
 public:
  LayerBuilder(WeightSet& weights, const ModelConfig& config, int64_t index);

  // The tensor "model.layers.INDEX.`name`.weight".
  RmsNorm norm(std::string_view name, int64_t size);
  // self_attn.{q,k,v,o}_proj, and {q,k}_norm where the config has them. Fused, q, k and v are one tensor: qkv_proj.
  enum class Tensors { kSeparate, kFused };
  enum class QkNorm { kOverHeads, kOverAll };
  Result<Attention> attention(Tensors tensors = Tensors::kSeparate, QkNorm qk_norm = QkNorm::kOverHeads);
  // mlp.{gate,up,down}_proj. Fused, gate and up are one tensor: gate_up_proj.
  Result<std::unique_ptr<Mlp>> gated_mlp(Tensors tensors = Tensors::kSeparate);
  // mlp.gate, mlp.experts and so on where the layer has experts, else the above.
  Result<std::unique_ptr<Mlp>> mlp();

 private:
  WeightSet& weights_;
  const ModelConfig& config_;
  int64_t index_;
  std::string prefix_;
};

// Llama's: a norm before the attention and one before the MLP.
Result<DecoderLayer> add_pre_norm_layer(WeightSet& weights, const ModelConfig& config, int64_t index);
// Gemma's: norms before and after each.
Result<DecoderLayer> add_sandwich_layer(WeightSet& weights, const ModelConfig& config, int64_t index);

}  // namespace unspool
