#include "models/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "models/family.h"
#include "models/rope_frequencies.h"

namespace unspool {

CausalLm::CausalLm(const ModelConfig& config, Backend& backend, const ModelOptions& options)
    : config_(config),
      backend_(backend),
      options_(options),
      rotary_(rope_frequencies(config.rope, options.max_positions), options.max_positions,
              config.rope.attention_factor),
      weights_(backend, options.dtype),
      mlp_scratch_(backend, options.max_tokens, options.dtype, options.precision) {}

Result<std::unique_ptr<CausalLm>> CausalLm::create(const ModelConfig& config, Backend& backend,
                                                   const ModelOptions& options) {
  std::unique_ptr<CausalLm> model(new CausalLm(config, backend, options));
  UNSPOOL_TRY(model->add_weights());
  return model;
}

Status CausalLm::load_weights(const Checkpoint& checkpoint, const LoadProgress& progress) {
  UNSPOOL_TRY(weights_.check(checkpoint));
  weights_.load(checkpoint, progress);
  if (const auto changed = checkpoint.changed_file()) {
    return invalid_argument(fmt::format("{} was changed while it was read", *changed));
  }
  return allocate_scratch();
}

Result<std::unique_ptr<CausalLm>> CausalLm::load(const ModelConfig& config, const Checkpoint& checkpoint,
                                                 Backend& backend, const ModelOptions& options,
                                                 const LoadProgress& progress) {
  UNSPOOL_ASSIGN(auto model, create(config, backend, options));
  UNSPOOL_TRY(model->load_weights(checkpoint, progress));
  return model;
}

Status CausalLm::add_weights() {
  const ModelConfig& c = config_;
  const Family* family = find_family(c.architecture);
  UNSPOOL_CHECK(family != nullptr, "architecture {} is not registered", c.architecture);
  UNSPOOL_ASSIGN(embedding_, Linear::add(weights_, {{"model.embed_tokens", c.vocab_size}}, c.hidden_size, false));
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    UNSPOOL_ASSIGN(DecoderLayer layer, family->add_layer(weights_, c, i));
    layers_.push_back(std::move(layer));
  }
  final_norm_ = {.weight = weights_.add_vector({{"model.norm.weight", c.hidden_size}}),
                 .eps = static_cast<float>(c.rms_norm_eps)};
  head_ = embedding_;
  if (c.tie_word_embeddings) {
    weights_.tie("lm_head.weight", "model.embed_tokens.weight");
  } else {
    UNSPOOL_ASSIGN(head_, Linear::add(weights_, {{"lm_head", c.vocab_size}}, c.hidden_size, false));
  }
  return {};
}

void CausalLm::release_scratch() {
  for (Buffer* buffer : {&x_, &qkv_, &attended_, &cos_, &sin_}) buffer->release();
  for (auto* input : {&normed_, &attended_input_, &head_input_}) input->reset();
  mlp_scratch_.release();
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
  UNSPOOL_ASSIGN(cos_, floats(rotary_.half()));
  UNSPOOL_ASSIGN(sin_, floats(rotary_.half()));
  auto input = [&](int64_t rows, int64_t columns, MatmulPrecision precision) {
    return backend_.make_product_input(rows, columns, options_.dtype, precision);
  };
  UNSPOOL_ASSIGN(normed_, input(tokens, c.hidden_size, options_.precision));
  UNSPOOL_ASSIGN(attended_input_, input(tokens, q_size, options_.precision));
  UNSPOOL_ASSIGN(head_input_, input(options_.max_logits_rows, c.hidden_size, options_.head_precision));
  for (const DecoderLayer& layer : layers_) UNSPOOL_TRY(layer.mlp->reserve(mlp_scratch_));
  return {};
}

void CausalLm::forward(const ModelBatch& batch, KvCache& cache, std::span<uint8_t> non_finite) {
  const ModelConfig& c = config_;
  auto rows = static_cast<int64_t>(batch.token_ids.size());
  UNSPOOL_CHECK(rows <= options_.max_tokens, "{} tokens in a step of {}", rows, options_.max_tokens);
  rotary_.gather(batch.positions, cos_.as<float>(), sin_.as<float>());
  auto* x = x_.as<float>();
  backend_.embed(embedding_.matrix(), batch.token_ids, x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    normalize(layer.input_norm, x, rows, *normed_);
    attend(layer, static_cast<int64_t>(i), batch, cache, non_finite);
    // Nothing reads the other rows' last hidden states.
    if (i + 1 == layers_.size()) rows = keep_logits_rows(batch);
    if (rows == 0) return;
    backend_.prepare(attended_.as<float>(), rows, attended_input_->columns(), *attended_input_);
    layer.attention.o.forward(backend_, *attended_input_, x, c.hidden_size, true);
    normalize(layer.mlp_norm, x, rows, *normed_);
    layer.mlp->forward(*normed_, mlp_scratch_, x, true);
  }
}

void CausalLm::normalize(const RmsNorm& norm, const float* x, int64_t rows, ProductInput& y) {
  backend_.rms_norm(x, rows, norm.weight, norm.eps, y);
}

void CausalLm::attend(const DecoderLayer& layer, int64_t index, const ModelBatch& batch, KvCache& cache,
                      std::span<uint8_t> non_finite) {
  const Attention& attention = layer.attention;
  auto* qkv = qkv_.as<float>();
  const bool rotates = attention.rotation >= 0;
  attention.qkv.forward(backend_, *normed_, qkv, attention.qkv.matrix().rows());
  backend_.attention({.qkv = qkv,
                      .heads = static_cast<int>(config_.num_attention_heads),
                      .layer = static_cast<int>(index),
                      .q_norm = attention.q_norm.exists() ? attention.q_norm.weight.data() : nullptr,
                      .k_norm = attention.k_norm.exists() ? attention.k_norm.weight.data() : nullptr,
                      .norm_eps = attention.q_norm.eps,
                      .cos = rotates ? cos_.as<float>() : nullptr,
                      .sin = rotates ? sin_.as<float>() : nullptr,
                      .rotary_dim = 2 * rotary_.half(),
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
  normalize(final_norm_, x_.as<float>() + first * config_.hidden_size, count, *head_input_);
  head_.logits(backend_, *head_input_, y, blocks);
}

}  // namespace unspool
