#include "models/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "models/rope_frequencies.h"

namespace unspool {

CausalLm::CausalLm(const ModelConfig& config, Backend& backend, const ModelOptions& options)
    : config_(config),
      backend_(backend),
      options_(options),
      rotary_(inverse_frequencies(config.rope, options.max_positions), options.max_positions,
              config.rope.attention_factor),
      weights_(backend, options.dtype) {}

Result<std::unique_ptr<CausalLm>> CausalLm::load(const ModelConfig& config, const Checkpoint& checkpoint,
                                                 Backend& backend, const ModelOptions& options,
                                                 const LoadProgress& progress) {
  std::unique_ptr<CausalLm> model(new CausalLm(config, backend, options));
  UNSPOOL_TRY(model->add_weights());
  UNSPOOL_TRY(model->weights_.check(checkpoint));
  model->weights_.load(checkpoint, progress);
  if (const auto changed = checkpoint.changed_file()) {
    return invalid_argument(fmt::format("{} was changed while it was read", *changed));
  }
  UNSPOOL_TRY(model->allocate_scratch());
  return model;
}

Status CausalLm::add_weights() {
  const ModelConfig& c = config_;
  UNSPOOL_ASSIGN(embedding_, Linear::add(weights_, {{"model.embed_tokens", c.vocab_size}}, c.hidden_size, false));
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    UNSPOOL_ASSIGN(Layer layer, add_layer(i));
    layers_.push_back(layer);
  }
  final_norm_ = weights_.add_vector({{"model.norm.weight", c.hidden_size}});
  head_ = embedding_;
  if (c.tie_word_embeddings) {
    weights_.tie("lm_head.weight", "model.embed_tokens.weight");
  } else {
    UNSPOOL_ASSIGN(head_, Linear::add(weights_, {{"lm_head", c.vocab_size}}, c.hidden_size, false));
  }
  return {};
}

Result<CausalLm::Layer> CausalLm::add_layer(int64_t index) {
  const ModelConfig& c = config_;
  const std::string prefix = fmt::format("model.layers.{}.", index), attention = prefix + "self_attn.",
                    mlp = prefix + "mlp.";
  const int64_t q_rows = c.num_attention_heads * c.head_dim, kv_rows = c.num_key_value_heads * c.head_dim;
  Layer layer;
  layer.input_norm = weights_.add_vector({{prefix + "input_layernorm.weight", c.hidden_size}});
  UNSPOOL_ASSIGN(
      layer.qkv,
      Linear::add(weights_,
                  {{attention + "q_proj", q_rows}, {attention + "k_proj", kv_rows}, {attention + "v_proj", kv_rows}},
                  c.hidden_size, c.qkv_bias));
  if (c.qk_norm) {
    layer.q_norm = weights_.add_vector({{attention + "q_norm.weight", c.head_dim}});
    layer.k_norm = weights_.add_vector({{attention + "k_norm.weight", c.head_dim}});
  }
  UNSPOOL_ASSIGN(layer.o, Linear::add(weights_, {{attention + "o_proj", c.hidden_size}}, q_rows, c.o_bias));
  layer.post_attention_norm = weights_.add_vector({{prefix + "post_attention_layernorm.weight", c.hidden_size}});
  UNSPOOL_ASSIGN(layer.gate,
                 Linear::add(weights_, {{mlp + "gate_proj", c.intermediate_size}}, c.hidden_size, c.mlp_bias));
  UNSPOOL_ASSIGN(layer.up, Linear::add(weights_, {{mlp + "up_proj", c.intermediate_size}}, c.hidden_size, c.mlp_bias));
  UNSPOOL_ASSIGN(layer.down,
                 Linear::add(weights_, {{mlp + "down_proj", c.hidden_size}}, c.intermediate_size, c.mlp_bias));
  return layer;
}

void CausalLm::release_scratch() {
  for (Buffer* buffer : {&x_, &qkv_, &attended_, &cos_, &sin_}) buffer->release();
  for (auto* input : {&normed_, &attended_input_, &gated_, &head_input_}) input->reset();
}

Status CausalLm::allocate_scratch() {
  const ModelConfig& c = config_;
  const int64_t tokens = options_.max_tokens, q_size = c.num_attention_heads * c.head_dim;
  const int64_t qkv_size = q_size + 2 * c.num_key_value_heads * c.head_dim;
  auto floats = [tokens](int64_t width) {
    return Buffer::allocate(static_cast<size_t>(tokens * width) * sizeof(float));
  };
  UNSPOOL_ASSIGN(x_, floats(c.hidden_size));
  UNSPOOL_ASSIGN(qkv_, floats(qkv_size));
  UNSPOOL_ASSIGN(attended_, floats(q_size));
  UNSPOOL_ASSIGN(cos_, floats(c.head_dim / 2));
  UNSPOOL_ASSIGN(sin_, floats(c.head_dim / 2));
  auto input = [&](int64_t rows, int64_t columns, MatmulPrecision precision) {
    return backend_.make_product_input(rows, columns, options_.dtype, precision);
  };
  UNSPOOL_ASSIGN(normed_, input(tokens, c.hidden_size, options_.precision));
  UNSPOOL_ASSIGN(attended_input_, input(tokens, q_size, options_.precision));
  UNSPOOL_ASSIGN(gated_, input(tokens, c.intermediate_size, options_.precision));
  UNSPOOL_ASSIGN(head_input_, input(options_.max_logits_rows, c.hidden_size, options_.head_precision));
  return {};
}

void CausalLm::forward(const ModelBatch& batch, KvCache& cache, std::span<uint8_t> non_finite) {
  const ModelConfig& c = config_;
  auto rows = static_cast<int64_t>(batch.token_ids.size());
  UNSPOOL_CHECK(rows <= options_.max_tokens, "{} tokens in a step of {}", rows, options_.max_tokens);
  const auto eps = static_cast<float>(c.rms_norm_eps);
  rotary_.gather(batch.positions, cos_.as<float>(), sin_.as<float>());
  auto* x = x_.as<float>();
  backend_.embed(embedding_.matrix(), batch.token_ids, x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    backend_.rms_norm(x, rows, layer.input_norm, eps, *normed_);
    attend(layer, static_cast<int64_t>(i), batch, cache, non_finite);
    // Nothing reads the other rows' last hidden states.
    if (i + 1 == layers_.size()) rows = keep_logits_rows(batch);
    if (rows == 0) return;
    backend_.prepare(attended_.as<float>(), rows, attended_input_->columns(), *attended_input_);
    layer.o.forward(backend_, *attended_input_, x, c.hidden_size, true);
    backend_.rms_norm(x, rows, layer.post_attention_norm, eps, *normed_);
    backend_.gated_silu(*normed_, layer.gate.matrix(), layer.up.matrix(), layer.gate.bias(), layer.up.bias(), *gated_);
    layer.down.forward(backend_, *gated_, x, c.hidden_size, true);
  }
}

void CausalLm::attend(const Layer& layer, int64_t index, const ModelBatch& batch, KvCache& cache,
                      std::span<uint8_t> non_finite) {
  const ModelConfig& c = config_;
  auto* qkv = qkv_.as<float>();
  layer.qkv.forward(backend_, *normed_, qkv, layer.qkv.matrix().rows());
  backend_.attention({.qkv = qkv,
                      .heads = static_cast<int>(c.num_attention_heads),
                      .layer = static_cast<int>(index),
                      .q_norm = layer.q_norm.empty() ? nullptr : layer.q_norm.data(),
                      .k_norm = layer.k_norm.empty() ? nullptr : layer.k_norm.data(),
                      .norm_eps = static_cast<float>(c.rms_norm_eps),
                      .cos = cos_.as<float>(),
                      .sin = sin_.as<float>(),
                      .sequences = batch.sequences,
                      .non_finite = non_finite},
                     cache, options_.precision, attended_.as<float>());
}

int64_t CausalLm::keep_logits_rows(const ModelBatch& batch) {
  auto* x = x_.as<float>();
  auto* attended = attended_.as<float>();
  const int64_t hidden = config_.hidden_size, width = attended_input_->columns();
  int64_t to = 0;
  for (const int32_t from : batch.logits_rows) {  // ascending, so that a row is read before it is written over
    if (from != to) {
      std::copy_n(x + from * hidden, hidden, x + to * hidden);
      std::copy_n(attended + from * width, width, attended + to * width);
    }
    ++to;
  }
  return to;
}

void CausalLm::logits(int first, int count, float* y, BlockStat* blocks) {
  backend_.rms_norm(x_.as<float>() + first * config_.hidden_size, count, final_norm_,
                    static_cast<float>(config_.rms_norm_eps), *head_input_);
  head_.logits(backend_, *head_input_, y, blocks);
}

}  // namespace unspool
