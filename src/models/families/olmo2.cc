// OLMo 2: norms after the attention and the MLP and none before; q and k are normed over all their heads at once.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qk_norm = true;
  UNSPOOL_TRY(read_attention_bias(config, model));
  if (const std::optional<JsonValue> clip = config.find("clip_qkv")) {
    return config.expected("clip_qkv", "null (OLMo 2 norms q and k instead)", *clip);
  }
  return read_sliding_window(config, {}, model);
}

Result<DecoderLayer> add_layer(WeightSet& weights, const ModelConfig& config, int64_t index) {
  LayerBuilder build(weights, config, index);
  DecoderLayer layer;
  UNSPOOL_ASSIGN(layer.attention, build.attention(LayerBuilder::Tensors::kSeparate, LayerBuilder::QkNorm::kOverAll));
  layer.attention_output_norm = build.norm("post_attention_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.mlp, build.gated_mlp());
  layer.mlp_output_norm = build.norm("post_feedforward_layernorm", config.hidden_size);
  return layer;
}

}  // namespace

Family olmo2_family() {
  return {.architecture = "Olmo2ForCausalLM",
          .default_rms_norm_eps = 1e-5,
          .read_switches = read_switches,
          .add_layer = add_layer};
}

}  // namespace unspool
