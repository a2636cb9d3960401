// Gemma 3's text models: Gemma 2's layers with norms over the heads of q and k, and no caps; all layers but every sixth
// slide, with a rotation of their own.
#include "models/families/gemma.h"
#include "models/family.h"
#include "models/layer_builder.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qk_norm = true;
  UNSPOOL_TRY(read_gemma_switches(config, {}, model));
  if (model.attention_softcap != 0.0) {
    return config.error("attn_logit_softcapping: expected null: the scores of Gemma 3 have no cap");
  }
  UNSPOOL_ASSIGN(const std::optional<int64_t> pattern, config.integer("sliding_window_pattern", 1, 1 << 20));
  const auto slides = [every = pattern.value_or(6)](int64_t layer) { return (layer + 1) % every != 0; };
  UNSPOOL_TRY(read_sliding_window(config, {.by_default = 4096, .slides = slides, .needs_window = true}, model));
  for (LayerConfig& layer : model.layers) layer.rotation = layer.window > 0 ? 1 : 0;
  return {};
}

}  // namespace

Family gemma3_family() {
  return {.architecture = "Gemma3ForCausalLM",
          .default_head_dim = 256,
          .default_kv_heads = 4,
          .ties_by_default = true,
          .activation = "gelu_pytorch_tanh",
          .activation_key = "hidden_activation",
          .rope = {.default_theta = 1e6, .context_is_scaled = true, .layer_type = "full_attention"},
          .local_rope = RopeFamily{.default_theta = 1e4,
                                   .context_is_scaled = true,
                                   .layer_type = "sliding_attention",
                                   .theta_key = "rope_local_base_freq"},
          .read_switches = read_switches,
          .add_layer = add_sandwich_layer};
}

}  // namespace unspool
