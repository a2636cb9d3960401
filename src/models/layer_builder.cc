#include "models/layer_builder.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "layers/experts_mlp.h"
#include "layers/gated_mlp.h"

namespace unspool {

LayerBuilder::LayerBuilder(WeightSet& weights, const ModelConfig& config, int64_t index)
    : weights_(weights), config_(config), index_(index), prefix_(fmt::format("model.layers.{}.", index)) {}

RmsNorm LayerBuilder::norm(std::string_view name, int64_t size) {
  return {.weight = weights_.add_vector({{fmt::format("{}{}.weight", prefix_, name), size}}),
          .eps = static_cast<float>(config_.rms_norm_eps),
          .offset = static_cast<float>(config_.norm_offset)};
}

Result<Attention> LayerBuilder::attention(Tensors tensors, QkNorm qk_norm) {
  const ModelConfig& c = config_;
  const std::string prefix = prefix_ + "self_attn.";
  const int64_t q_rows = c.num_attention_heads * c.head_dim, kv_rows = c.num_key_value_heads * c.head_dim;
  std::vector<LinearPart> parts = {
      {prefix + "q_proj", q_rows}, {prefix + "k_proj", kv_rows}, {prefix + "v_proj", kv_rows}};
  if (tensors == Tensors::kFused) parts = {{prefix + "qkv_proj", q_rows + 2 * kv_rows}};
  const bool over_all = qk_norm == QkNorm::kOverAll;
  Attention attention;
  UNSPOOL_ASSIGN(attention.qkv, Linear::add(weights_, parts, c.hidden_size, c.qkv_bias));
  if (c.qk_norm) {
    attention.q_norm = norm("self_attn.q_norm", over_all ? q_rows : c.head_dim);
    attention.k_norm = norm("self_attn.k_norm", over_all ? kv_rows : c.head_dim);
  }
  UNSPOOL_ASSIGN(attention.o, Linear::add(weights_, {{prefix + "o_proj", c.hidden_size}}, q_rows, c.o_bias));
  const LayerConfig& layer = c.layers[static_cast<size_t>(index_)];
  attention.rotation = layer.rotation;
  attention.window = layer.window;
  return attention;
}

Result<std::unique_ptr<Mlp>> LayerBuilder::gated_mlp(Tensors tensors) {
  const ModelConfig& c = config_;
  const auto add = [&](const char* name, int64_t rows, int64_t columns) {
    return Linear::add(weights_, {{fmt::format("{}mlp.{}", prefix_, name), rows}}, columns, c.mlp_bias);
  };
  if (tensors == Tensors::kFused) {
    UNSPOOL_CHECK(!c.mlp_bias, "{} has no biases in its MLPs", c.architecture);
    UNSPOOL_ASSIGN(const Linear gate_up, add("gate_up_proj", 2 * c.intermediate_size, c.hidden_size));
    UNSPOOL_ASSIGN(const Linear down, add("down_proj", c.hidden_size, c.intermediate_size));
    return std::unique_ptr<Mlp>(std::make_unique<GatedMlp>(gate_up, down, c.activation));
  }
  UNSPOOL_ASSIGN(const Linear gate, add("gate_proj", c.intermediate_size, c.hidden_size));
  UNSPOOL_ASSIGN(const Linear up, add("up_proj", c.intermediate_size, c.hidden_size));
  UNSPOOL_ASSIGN(const Linear down, add("down_proj", c.hidden_size, c.intermediate_size));
  return std::unique_ptr<Mlp>(std::make_unique<GatedMlp>(gate, up, down, c.activation));
}

Result<std::unique_ptr<Mlp>> LayerBuilder::mlp() {
  if (!config_.layers[static_cast<size_t>(index_)].has_experts) return gated_mlp();
  const MoeConfig& moe = config_.moe;
  return ExpertsMlp::add(weights_, prefix_ + "mlp.",
                         {.num_experts = moe.num_experts,
                          .top_k = moe.top_k,
                          .hidden = config_.hidden_size,
                          .inner = moe.inner,
                          .shared_inner = moe.shared_inner,
                          .normalize = moe.normalize});
}

Result<DecoderLayer> add_pre_norm_layer(WeightSet& weights, const ModelConfig& config, int64_t index) {
  LayerBuilder build(weights, config, index);
  DecoderLayer layer;
  layer.input_norm = build.norm("input_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.attention, build.attention());
  layer.mlp_norm = build.norm("post_attention_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.mlp, build.mlp());
  return layer;
}

Result<DecoderLayer> add_sandwich_layer(WeightSet& weights, const ModelConfig& config, int64_t index) {
  LayerBuilder build(weights, config, index);
  DecoderLayer layer;
  layer.input_norm = build.norm("input_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.attention, build.attention());
  layer.attention_output_norm = build.norm("post_attention_layernorm", config.hidden_size);
  layer.mlp_norm = build.norm("pre_feedforward_layernorm", config.hidden_size);
  UNSPOOL_ASSIGN(layer.mlp, build.gated_mlp());
  layer.mlp_output_norm = build.norm("post_feedforward_layernorm", config.hidden_size);
  return layer;
}

}  // namespace unspool
