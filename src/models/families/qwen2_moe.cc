// Qwen1.5-MoE and Qwen2-MoE: Qwen2's attention, and in some layers experts with a shared one beside them.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/moe_config.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qkv_bias = true;
  UNSPOOL_TRY(config.flag("qkv_bias", model.qkv_bias));
  UNSPOOL_TRY(read_moe(config, {.num_experts = 60, .top_k = 4, .inner = 1408, .shared_inner = 5632}, model));
  UNSPOOL_ASSIGN(const std::optional<int64_t> layers, config.integer("max_window_layers", 0, 1024));
  const int64_t last = layers.value_or(28);
  const auto slides = [last](int64_t layer) { return layer % 2 == 0 && layer < last; };
  return read_sliding_window(config, {.by_default = 4096, .slides = slides, .gated = true}, model);
}

}  // namespace

Family qwen2_moe_family() {
  return {.architecture = "Qwen2MoeForCausalLM", .read_switches = read_switches, .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
