// From a step plan to logits: owns the keys and values, packs the ragged batch, runs the model.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "models/causal_lm.h"
#include "runner/routed_experts_store.h"
#include "runner/step_executor.h"
#include "tensor/buffer.h"

namespace unspool {

class ModelRunner final : public StepExecutor {
 public:
  // The backend outlives the runner. `cache` fits the model (kv_cache_shape()), and so does `routed_experts`, which is
  // null where they are not kept.
  ModelRunner(std::unique_ptr<CausalLm> model, std::unique_ptr<KvCache> cache, int max_logits_rows,
              std::unique_ptr<RoutedExpertsStore> routed_experts = nullptr);

  int vocab_size() const override { return static_cast<int>(model_->config().vocab_size); }
  void execute(const StepPlan& plan) override;
  std::span<const int> non_finite_sequences() const override { return non_finite_; }
  std::span<float> logits(int first, int count, int64_t* stride) override;
  std::span<const BlockStat> logits_blocks() const override { return logits_blocks_; }
  int max_logits_rows() const override { return max_logits_rows_; }
  RoutedExpertsShape routed_experts() const override {
    return routed_experts_ == nullptr ? RoutedExpertsShape() : routed_experts_->shape();
  }
  void read_routed_experts(std::span<const int32_t> block_table, int first, int last, std::byte* out) const override {
    routed_experts_->read(block_table, first, last, out);
  }

  // What may be given back between steps; execute() checks that it is there again.
  CausalLm& model() { return *model_; }
  const CausalLm& model() const { return *model_; }
  KvCache& kv_cache() { return *cache_; }
  // Keys, values and what is kept beside them.
  void release_kv_cache();
  Status restore_kv_cache();  // on an error nothing of it stays
  size_t kv_cache_bytes() const;
  // The model's activations and the logits.
  void release_scratch();
  Status allocate_scratch();  // on an error nothing of it stays

 private:
  Status allocate_logits();

  std::unique_ptr<CausalLm> model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<RoutedExpertsStore> routed_experts_;
  int max_logits_rows_;
  Buffer logits_;  // [max_logits_rows, vocab_size]
  std::vector<BlockStat> logits_blocks_;
  ModelBatch batch_;
  RoutedIds routed_ids_;
  std::vector<int> non_finite_;
};

// The cache a model needs for blocks of that many tokens.
KvCacheShape kv_cache_shape(const ModelConfig& config, int64_t block_size, int64_t blocks, DType dtype);

// Logits rows that a step holds at once: as many as a product's tile, less where the vocabulary is large (24 MiB of
// logits).
int logits_rows_for(int64_t vocab_size);

}  // namespace unspool
