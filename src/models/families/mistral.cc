// Mistral: Llama's layers without biases, and a window on all of them unless the config has null.
#include "models/family.h"
#include "models/layer_builder.h"
#include "models/sliding_window.h"

namespace unspool {
namespace {

Status read_switches(const ConfigReader& config, ModelConfig& model) {
  return read_sliding_window(config, {.by_default = 4096, .slides = [](int64_t) { return true; }, .takes_types = false},
                             model);
}

}  // namespace

Family mistral_family() {
  return {.architecture = "MistralForCausalLM",
          .default_kv_heads = 8,
          .read_switches = read_switches,
          .add_layer = add_pre_norm_layer};
}

}  // namespace unspool
