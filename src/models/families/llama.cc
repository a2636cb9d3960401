// Llama 2 to 3.3, and all that took its shape (SmolLM2 among them).
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_TRY(read_attention_bias(config, model));
  UNSPOOL_TRY(config.flag("mlp_bias", model.mlp_bias));
  return read_sliding_window(config, {}, model);
}

}  // namespace

Family llama_family() {
  return {.architecture = "LlamaForCausalLM", .read_switches = read_switches, .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
