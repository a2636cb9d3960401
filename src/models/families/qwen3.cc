// Qwen3: norms over the heads of q and k, and heads of 128 features whatever the hidden size.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qk_norm = true;
  UNSPOOL_TRY(read_attention_bias(config, model));
  return read_qwen_windows(config, model);
}

}  // namespace

Family qwen3_family() {
  return {.architecture = "Qwen3ForCausalLM",
          .default_head_dim = 128,
          .read_switches = read_switches,
          .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
