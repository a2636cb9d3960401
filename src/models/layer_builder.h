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
  // self_attn.{q,k,v,o}_proj, and {q,k}_norm where the config has them.
  Result<Attention> attention();
  // mlp.{gate,up,down}_proj.
  Result<std::unique_ptr<Mlp>> gated_mlp();

 private:
  WeightSet& weights_;
  const ModelConfig& config_;
  int64_t index_;
  std::string prefix_;
};

// A norm before the attention and one before the MLP, each of which is added to what it was made from.
Result<DecoderLayer> add_pre_norm_layer(WeightSet& weights, const ModelConfig& config, int64_t index);

}  // namespace unspool
