#include "models/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "models/family.h"
#include "models/rope_frequencies.h"

namespace unspool {

CausalLm::CausalLm(const ModelConfig& config, Backend& backend, const ModelOptions& options)
    : config_(config),
      backend_(backend),
      options_(options),
      weights_(backend, options.dtype),
      mlp_scratch_(backend, options.max_tokens, options.dtype, options.precision) {
  const auto add_rotation = [&](const RopeConfig& rope) {
    rotations_.push_back(
        {.table = {rope_frequencies(rope, options.max_positions), options.max_positions, rope.attention_factor}});
  };
  add_rotation(config.rope);
  if (config.local_rope) add_rotation(*config.local_rope);
  attention_scale_ = config.attention_scale > 0.0 ? static_cast<float>(config.attention_scale)
                                                  : 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  if (config.scale_embeddings) {
    // Rounded to the served type, as it is where a trainer multiplies weights of that type.
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(config.hidden_size)));
    load_vector({&root, DType::kFloat32, Shape{1}}, options.dtype, {&embedding_scale_, 1});
  }
}

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
                 .eps = static_cast<float>(c.rms_norm_eps),
                 .offset = static_cast<float>(c.norm_offset)};
  head_ = embedding_;
  if (c.tie_word_embeddings) {
    weights_.tie("lm_head.weight", "model.embed_tokens.weight");
  } else {
    UNSPOOL_ASSIGN(head_, Linear::add(weights_, {{"lm_head", c.vocab_size}}, c.hidden_size, false));
  }
  return {};
}

void CausalLm::release_scratch() {
  for (Buffer* buffer : {&x_, &qkv_, &attended_, &branch_}) buffer->release();
  for (Rotation& rotation : rotations_)
    for (Buffer* buffer : {&rotation.cos, &rotation.sin}) buffer->release();
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
  for (Rotation& rotation : rotations_) {
    UNSPOOL_ASSIGN(rotation.cos, floats(rotation.table.half()));
    UNSPOOL_ASSIGN(rotation.sin, floats(rotation.table.half()));
  }
  const auto has_branch = [](const DecoderLayer& layer) {
    return layer.attention_output_norm.exists() || layer.mlp_output_norm.exists();
  };
  if (std::any_of(layers_.begin(), layers_.end(), has_branch)) {
    UNSPOOL_ASSIGN(branch_, floats(c.hidden_size));
  }
  auto input = [&](int64_t rows, int64_t columns, MatmulPrecision precision) {
    return backend_.make_product_input(rows, columns, options_.dtype, precision);
  };
  UNSPOOL_ASSIGN(normed_, input(tokens, c.hidden_size, options_.precision));
  UNSPOOL_ASSIGN(attended_input_, input(tokens, q_size, options_.precision));
  UNSPOOL_ASSIGN(head_input_, input(options_.max_logits_rows, c.hidden_size, options_.head_precision));
  for (const DecoderLayer& layer : layers_) UNSPOOL_TRY(layer.mlp->reserve(mlp_scratch_));
  return {};
}

void CausalLm::forward(const ModelBatch& batch, KvCache& cache, std::span<uint8_t> non_finite, RoutedIds* routed) {
  auto rows = static_cast<int64_t>(batch.token_ids.size());
  UNSPOOL_CHECK(rows <= options_.max_tokens, "{} tokens in a step of {}", rows, options_.max_tokens);
  if (routed != nullptr)
    routed->ids.assign(static_cast<size_t>(rows * config_.num_hidden_layers * config_.moe.top_k), 0);
  for (Rotation& rotation : rotations_)
    rotation.table.gather(batch.positions, rotation.cos.as<float>(), rotation.sin.as<float>());
  auto* x = x_.as<float>();
  backend_.embed(embedding_.matrix(), batch.token_ids, embedding_scale_, x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    const auto index = static_cast<int64_t>(i);
    const bool last = i + 1 == layers_.size(), routes_all = last && routed != nullptr && layer.mlp->routes();
    normalize(layer.input_norm, x, rows, *normed_);
    attend(layer, index, batch, cache, non_finite);
    // Nothing reads the other rows' last hidden states, but for a router whose choices are all wanted.
    if (last && !routes_all) rows = keep_logits_rows(batch);
    if (rows == 0) return;
    backend_.prepare(attended_.as<float>(), rows, attended_input_->columns(), *attended_input_);
    add_branch(layer.attention_output_norm, rows, [&](float* y, bool accumulate) {
      layer.attention.o.forward(backend_, *attended_input_, y, config_.hidden_size, accumulate);
    });
    if (routes_all) {
      route(layer, index, rows, routed);
      rows = keep_logits_rows(batch);
      if (rows == 0) return;
    }
    if (layer.mlp->routes()) route(layer, index, rows, routes_all ? nullptr : routed);
    normalize(layer.mlp_norm, x, rows, *normed_);
    add_branch(layer.mlp_output_norm, rows,
               [&](float* y, bool accumulate) { layer.mlp->forward(*normed_, mlp_scratch_, y, accumulate); });
  }
}

void CausalLm::route(const DecoderLayer& layer, int64_t index, int64_t rows, RoutedIds* routed) {
  RoutingScratch& routing = mlp_scratch_.routing();
  normalize(layer.mlp_norm, x_.as<float>(), rows, *routing.unrounded);
  layer.mlp->route(mlp_scratch_);
  if (routed == nullptr) return;
  const int64_t top_k = config_.moe.top_k, row_ids = config_.num_hidden_layers * top_k;
  const int32_t* chosen = routing.routes.experts.data();
  for (int64_t r = 0; r < rows; ++r, chosen += top_k)
    std::copy_n(chosen, top_k, routed->ids.data() + r * row_ids + index * top_k);
}

template <class F>
void CausalLm::add_branch(const RmsNorm& norm, int64_t rows, F f) {
  if (!norm.exists()) return f(x_.as<float>(), true);
  f(branch_.as<float>(), false);
  backend_.add_rms_norm(branch_.as<float>(), rows, norm, x_.as<float>());
}

void CausalLm::normalize(const RmsNorm& norm, const float* x, int64_t rows, ProductInput& y) {
  if (norm.exists())
    backend_.rms_norm(x, rows, norm, y);
  else
    backend_.prepare(x, rows, y.columns(), y);
}

void CausalLm::attend(const DecoderLayer& layer, int64_t index, const ModelBatch& batch, KvCache& cache,
                      std::span<uint8_t> non_finite) {
  const Attention& attention = layer.attention;
  auto* qkv = qkv_.as<float>();
  const Rotation* rotation = attention.rotation < 0 ? nullptr : &rotations_[static_cast<size_t>(attention.rotation)];
  const bool all = attention.window >= options_.max_positions;  // the window never ends
  attention.qkv.forward(backend_, *normed_, qkv, attention.qkv.matrix().rows());
  backend_.attention({.qkv = qkv,
                      .heads = static_cast<int>(config_.num_attention_heads),
                      .layer = static_cast<int>(index),
                      .q_norm = attention.q_norm,
                      .k_norm = attention.k_norm,
                      .cos = rotation == nullptr ? nullptr : rotation->cos.as<float>(),
                      .sin = rotation == nullptr ? nullptr : rotation->sin.as<float>(),
                      .rotary_dim = rotation == nullptr ? 0 : 2 * rotation->table.half(),
                      .scale = attention_scale_,
                      .softcap = static_cast<float>(config_.attention_softcap),
                      .window = all ? 0 : attention.window,
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
  backend_.logits(*head_input_, head_.matrix(), static_cast<float>(config_.logits_softcap), y, blocks);
}

}  // namespace unspool
