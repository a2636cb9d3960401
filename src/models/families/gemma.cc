#include "models/families/gemma.h"

#include <cmath>

#include "models/family.h"

namespace unspool {
namespace {

// A cap, or 0 where config.json has null.
Status read_cap(const ConfigReader& config, std::string_view key, double by_default, double& cap) {
  UNSPOOL_ASSIGN(const std::optional<double> value, config.number(key, 0.0, 1e6, /*above_min=*/true));
  cap = value.value_or(config.has(key) ? 0.0 : by_default);
  return {};
}

}  // namespace

Status read_gemma_switches(const ConfigReader& config, const GemmaDefaults& defaults, ModelConfig& model) {
  model.activation = Activation::kGeluTanh;
  model.norm_offset = 1.0;
  model.scale_embeddings = true;
  UNSPOOL_TRY(read_attention_bias(config, model));
  UNSPOOL_ASSIGN(const std::optional<double> scalar,
                 config.number("query_pre_attn_scalar", 0.0, 1e6, /*above_min=*/true));
  model.attention_scale = 1.0 / std::sqrt(scalar.value_or(256.0));
  UNSPOOL_TRY(read_cap(config, "attn_logit_softcapping", defaults.attention_softcap, model.attention_softcap));
  UNSPOOL_TRY(read_cap(config, "final_logit_softcapping", defaults.logits_softcap, model.logits_softcap));
  bool both_ways = false;
  UNSPOOL_TRY(config.flag("use_bidirectional_attention", both_ways));
  if (both_ways) {
    return config.error("use_bidirectional_attention: expected false, got true: a token sees those before it alone");
  }
  return {};
}

}  // namespace unspool
