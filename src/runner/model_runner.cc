#include "runner/model_runner.h"

#include <algorithm>

#include "base/check.h"

namespace unspool {

KvCacheShape kv_cache_shape(const ModelConfig& config, int64_t block_size, int64_t blocks, DType dtype) {
  return {.layers = config.num_hidden_layers,
          .blocks = blocks,
          .block_size = block_size,
          .kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .dtype = dtype};
}

int logits_rows_for(int64_t vocab_size) {
  constexpr int64_t kBudgetFloats = int64_t{6} << 20;
  return static_cast<int>(std::clamp<int64_t>(kBudgetFloats / vocab_size, 8, 96));
}

ModelRunner::ModelRunner(std::unique_ptr<CausalLm> model, std::unique_ptr<KvCache> cache, int max_logits_rows,
                         std::unique_ptr<RoutedExpertsStore> routed_experts)
    : model_(std::move(model)),
      cache_(std::move(cache)),
      routed_experts_(std::move(routed_experts)),
      max_logits_rows_(max_logits_rows) {
  UNSPOOL_CHECK(allocate_logits().ok(), "no memory for {} rows of logits", max_logits_rows);
}

Status ModelRunner::allocate_logits() {
  const auto floats = static_cast<size_t>(max_logits_rows_) * static_cast<size_t>(vocab_size());
  UNSPOOL_ASSIGN(logits_, Buffer::allocate(floats * sizeof(float)));
  return {};
}

void ModelRunner::release_scratch() {
  model_->release_scratch();
  logits_.release();
}

Status ModelRunner::allocate_scratch() {
  Status status = model_->allocate_scratch();
  if (status.ok()) status = allocate_logits();
  if (!status.ok()) release_scratch();
  return status;
}

void ModelRunner::release_kv_cache() {
  cache_->release();
  if (routed_experts_ != nullptr) routed_experts_->release();
}

Status ModelRunner::restore_kv_cache() {
  Status status = cache_->restore();
  if (status.ok() && routed_experts_ != nullptr) status = routed_experts_->allocate();
  if (!status.ok()) release_kv_cache();
  return status;
}

size_t ModelRunner::kv_cache_bytes() const {
  return cache_->resident_bytes() + (routed_experts_ == nullptr ? 0 : routed_experts_->resident_bytes());
}

void ModelRunner::execute(const StepPlan& plan) {
  UNSPOOL_CHECK(!cache_->is_released() && !model_->weights().is_released() && !logits_.empty(), "a step while asleep");
  cache_->zero_blocks(plan.blocks_to_zero);
  for (const auto& [from, to] : plan.blocks_to_copy) {
    cache_->copy_block(from, to);
    if (routed_experts_ != nullptr) routed_experts_->copy_block(from, to);
  }

  batch_ = {};
  for (const auto& sequence : plan.sequences) {
    const auto first_row = static_cast<int>(batch_.token_ids.size());
    const auto tokens = static_cast<int>(sequence.token_ids.size());
    batch_.sequences.push_back({first_row, tokens, sequence.start, sequence.block_table});
    batch_.token_ids.insert(batch_.token_ids.end(), sequence.token_ids.begin(), sequence.token_ids.end());
    for (int t = 0; t < tokens; ++t) batch_.positions.push_back(sequence.start + t);
    for (const int32_t row : sequence.logits_rows) batch_.logits_rows.push_back(first_row + row);
  }
  std::vector<uint8_t> marks(plan.sequences.size(), 0);
  model_->forward(batch_, *cache_, marks, routed_experts_ == nullptr ? nullptr : &routed_ids_);
  if (routed_experts_ != nullptr) {
    const uint16_t* row = routed_ids_.ids.data();
    for (const auto& sequence : plan.sequences) {
      routed_experts_->write(sequence.block_table, sequence.start, static_cast<int>(sequence.token_ids.size()), row);
      row += static_cast<int64_t>(sequence.token_ids.size()) * routed_experts_->row_ids();
    }
  }
  non_finite_.clear();
  for (size_t i = 0; i < marks.size(); ++i)
    if (marks[i] != 0) non_finite_.push_back(static_cast<int>(i));
}

std::span<float> ModelRunner::logits(int first, int count, int64_t* stride) {
  UNSPOOL_CHECK(count <= max_logits_rows_, "{} rows of logits, {} at most", count, max_logits_rows_);
  *stride = vocab_size();
  logits_blocks_.resize(static_cast<size_t>(count * vocab_blocks(vocab_size())));
  model_->logits(first, count, logits_.as<float>(), logits_blocks_.data());
  return {logits_.as<float>(), static_cast<size_t>(count) * static_cast<size_t>(vocab_size())};
}

}  // namespace unspool
