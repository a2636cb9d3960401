// Phi-3, 3.5 and 4: Llama's layers with q, k and v in one tensor, and gate and up in another; a window on all layers
// where there is one.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  return read_sliding_window(config, {.slides = [](int64_t) { return true; }, .takes_types = false}, model);
}

Result<DecoderLayer> add_layer(WeightSet& weights, const ModelConfig& config, int64_t index) {
  LayerBuilder build(weights, config, index);
  DecoderLayer layer;
  layer.input_norm = build.norm("input_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.attention, build.attention(LayerBuilder::Tensors::kFused));
  layer.mlp_norm = build.norm("post_attention_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.mlp, build.gated_mlp(LayerBuilder::Tensors::kFused));
  return layer;
}

}  // namespace

Family phi3_family() {
  return {.architecture = "Phi3ForCausalLM",
          .default_rms_norm_eps = 1e-5,
          .rope = {.follows_partial_factor = true, .longrope_alone = true, .default_original_max = 4096},
          .read_switches = read_switches,
          .add_layer = add_layer};
}

}  // namespace unspool
