#include "models/moe_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace unspool {
namespace {

constexpr int64_t kMaxExperts = 65535;  // ids are returned in two bytes
constexpr int64_t kMaxExpertSize = int64_t{1} << 20;
constexpr int64_t kMaxStep = 1024;

Result<std::vector<int64_t>> read_dense_layers(const ConfigReader& config, int64_t num_layers) {
  std::vector<int64_t> layers;
  const std::optional<JsonValue> list = config.find("mlp_only_layers");
  if (!list) return layers;
  const std::string expected = "a list of layers' indices";
  if (!list->is_array()) return config.expected("mlp_only_layers", expected, *list);
  for (const JsonValue& element : list->elements()) {
    const std::optional<int64_t> index = element.as_int64();
    if (!index || *index < 0) return config.expected("mlp_only_layers", expected, *list);
    if (*index < num_layers) layers.push_back(*index);  // one past the end names no layer, as in Python
  }
  return layers;
}

}  // namespace

Status read_moe(const ConfigReader& config, const MoeDefaults& defaults, ModelConfig& model) {
  MoeConfig& moe = model.moe;
  UNSPOOL_ASSIGN(const std::optional<int64_t> experts, config.integer("num_experts", 0, kMaxExperts));
  UNSPOOL_ASSIGN(const std::optional<int64_t> local, config.integer("num_local_experts", 0, kMaxExperts));
  moe.num_experts = experts ? *experts : local.value_or(defaults.num_experts);
  if (moe.num_experts == 0) return {};  // every layer is dense
  UNSPOOL_ASSIGN(const std::optional<int64_t> top_k, config.integer("num_experts_per_tok", 1, kMaxExperts));
  moe.top_k = top_k.value_or(defaults.top_k);
  if (moe.top_k > moe.num_experts) {
    return config.error(
        fmt::format("num_experts_per_tok: expected at most num_experts ({}), got {}", moe.num_experts, moe.top_k));
  }
  UNSPOOL_ASSIGN(const std::optional<int64_t> inner, config.integer("moe_intermediate_size", 1, kMaxExpertSize));
  moe.inner = inner.value_or(defaults.inner);
  if (defaults.shared_inner > 0) {
    UNSPOOL_ASSIGN(const std::optional<int64_t> shared,
                   config.integer("shared_expert_intermediate_size", 1, kMaxExpertSize));
    moe.shared_inner = shared.value_or(defaults.shared_inner);
  }
  UNSPOOL_TRY(config.flag("norm_topk_prob", moe.normalize));
  UNSPOOL_ASSIGN(const std::optional<int64_t> step, config.integer("decoder_sparse_step", 1, kMaxStep));
  UNSPOOL_ASSIGN(const std::vector<int64_t> dense, read_dense_layers(config, model.num_hidden_layers));
  for (int64_t i = 0; i < model.num_hidden_layers; ++i) {
    const bool is_dense = std::find(dense.begin(), dense.end(), i) != dense.end();
    model.layers[static_cast<size_t>(i)].has_experts = !is_dense && (i + 1) % step.value_or(1) == 0;
  }
  return {};
}

}  // namespace unspool
