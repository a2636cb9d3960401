// Gemma 2: norms before and after, whose weights are stored as their distance from 1; every second layer slides; scores
// and logits have soft caps; embeddings are scaled.
#include "models/families/gemma.h"
#include "models/family.h"
#include "models/layer_builder.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_TRY(read_gemma_switches(config, {.attention_softcap = 50.0, .logits_softcap = 30.0}, model));
  return read_sliding_window(
      config, {.by_default = 4096, .slides = [](int64_t layer) { return layer % 2 == 0; }, .needs_window = true},
      model);
}

}  // namespace

Family gemma2_family() {
  return {.architecture = "Gemma2ForCausalLM",
          .default_head_dim = 256,
          .default_kv_heads = 4,
          .ties_by_default = true,
          .activation = "gelu_pytorch_tanh",
          .activation_key = "hidden_activation",
          .read_switches = read_switches,
          .add_layer = add_sandwich_layer};
}

}  // namespace unspool
