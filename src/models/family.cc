#include "models/family.h"

#include <algorithm>
#include <array>

namespace unspool {

Status read_attention_bias(const ConfigReader& config, ModelConfig& model) {
  UNSPOOL_TRY(config.flag("attention_bias", model.o_bias));
  model.qkv_bias = model.o_bias;
  return {};
}

std::span<const Family> families() {
  static const std::array kFamilies = {llama_family(),   mistral_family(),   qwen2_family(),    qwen3_family(),
                                       gemma2_family(),  gemma3_family(),    olmo2_family(),    phi3_family(),
                                       smollm3_family(), qwen2_moe_family(), qwen3_moe_family()};
  return kFamilies;
}

const Family* find_family(std::string_view architecture) {
  const auto all = families();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Family& family) { return family.architecture == architecture; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace unspool
