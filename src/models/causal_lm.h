// A decoder-only language model: one stack for all families, whose layers each family builds (models/family.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "layers/decoder_layer.h"
#include "layers/linear.h"
#include "layers/rotary.h"
#include "layers/weight_set.h"
#include "models/model_config.h"
#include "tensor/buffer.h"
#include "weights/checkpoint.h"

namespace unspool {

struct ModelOptions {
  DType dtype = DType::kBFloat16;  // the served one: of the weights, and what products round their inputs to (bf16)
  MatmulPrecision precision = MatmulPrecision::kBf16;
  MatmulPrecision head_precision = MatmulPrecision::kBf16;
  int max_tokens = 512;  // of a step
  int max_positions = 0;
  int max_logits_rows = 96;
};

// A step's tokens, all sequences one after the other.
struct ModelBatch {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> positions;
  std::vector<AttentionSequence> sequences;
  std::vector<int32_t> logits_rows;  // rows of the batch, ascending
};

// Which experts a step's tokens went to, those of an expert's layer in the order of their rank; zeros in other layers.
struct RoutedIds {
  std::vector<uint16_t> ids;  // [tokens, num_hidden_layers, top_k]
};

class CausalLm {
 public:
  // A model that describes its weights, with memory for them; load_weights() comes next.
  static Result<std::unique_ptr<CausalLm>> create(const ModelConfig& config, Backend& backend,
                                                  const ModelOptions& options);
  // Takes every tensor of the checkpoint; a missing, surplus or mis-shaped one is an error that names it.
  Status load_weights(const Checkpoint& checkpoint, const LoadProgress& progress);
  // Both.
  static Result<std::unique_ptr<CausalLm>> load(const ModelConfig& config, const Checkpoint& checkpoint,
                                                Backend& backend, const ModelOptions& options,
                                                const LoadProgress& progress);

  const ModelConfig& config() const { return config_; }
  // Runs the layers; the batch's logits rows are kept for logits(). `non_finite` has an entry a sequence. `routed`, of
  // a model that has experts: of every token, those whose logits nobody wants too.
  void forward(const ModelBatch& batch, KvCache& cache, std::span<uint8_t> non_finite, RoutedIds* routed = nullptr);
  // Logits of rows [first, first + count) of the last batch's logits_rows: y [count, vocab_size].
  void logits(int first, int count, float* y, BlockStat* blocks);

  // The tensors of the checkpoint that it was loaded from, which may be loaded from another one or given back; nothing
  // may run while they are.
  WeightSet& weights() { return weights_; }
  const WeightSet& weights() const { return weights_; }
  size_t weight_bytes() const { return weights_.size_bytes(); }
  // A step's activations: given back to the operating system, and made again.
  void release_scratch();
  Status allocate_scratch();

 private:
  struct Rotation {
    RotaryEmbedding table;
    Buffer cos = {}, sin = {};  // of a step, [max_tokens, half]
  };
  CausalLm(const ModelConfig& config, Backend& backend, const ModelOptions& options);
  // Describes the model's tensors, with memory for them.
  Status add_weights();
  // Of all of a step's rows: norm, q, k and v, attention.
  void attend(const DecoderLayer& layer, int64_t index, const ModelBatch& batch, KvCache& cache,
              std::span<uint8_t> non_finite);
  // The norm before the MLP, unrounded, and its router; the choice is noted where `routed` is given.
  void route(const DecoderLayer& layer, int64_t index, int64_t rows, RoutedIds* routed);
  // y = norm(x), or x where there is no norm, as a product's left side.
  void normalize(const RmsNorm& norm, const float* x, int64_t rows, ProductInput& y);
  // x += norm(what f(y, accumulate) makes), without a detour where there is no norm.
  template <class F>
  void add_branch(const RmsNorm& norm, int64_t rows, F f);
  // Leaves in x (and in the attention's output) the batch's logits rows alone.
  int64_t keep_logits_rows(const ModelBatch& batch);

  ModelConfig config_;
  Backend& backend_;
  ModelOptions options_;
  std::vector<Rotation> rotations_;
  WeightSet weights_;
  Linear embedding_;
  std::vector<DecoderLayer> layers_;
  RmsNorm final_norm_;
  Linear head_;  // the embedding where tied

  float embedding_scale_ = 1.0f, attention_scale_ = 1.0f;

  // A step's activations, [max_tokens, ...] floats: the residual stream, q|k|v, the attention's output, what goes
  // through a norm before it is added (empty where nothing does).
  Buffer x_, qkv_, attended_, branch_;
  std::unique_ptr<ProductInput> normed_, attended_input_, head_input_;
  MlpScratch mlp_scratch_;
};

}  // namespace unspool
