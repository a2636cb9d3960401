// Qwen3-MoE: Qwen3's attention, and experts in most layers.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/moe_config.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qk_norm = true;
  UNSPOOL_TRY(read_attention_bias(config, model));
  UNSPOOL_TRY(read_moe(config, {.num_experts = 128, .top_k = 8, .inner = 768}, model));
  const auto slides = [](int64_t) { return true; };
  return read_sliding_window(config, {.by_default = 4096, .slides = slides, .gated = true, .takes_types = false},
                             model);
}

}  // namespace

Family qwen3_moe_family() {
  return {.architecture = "Qwen3MoeForCausalLM", .read_switches = read_switches, .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
