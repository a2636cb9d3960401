// Qwen2 and 2.5: biases on q, k and v always and nowhere else; windows only where use_sliding_window says so.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  model.qkv_bias = true;
  return read_qwen_windows(config, model);
}

}  // namespace

Family qwen2_family() {
  return {.architecture = "Qwen2ForCausalLM", .read_switches = read_switches, .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
