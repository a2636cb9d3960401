// A model of a few tokens whose logits depend on every key it reads through the block table, so that a wrong table, a
// stale block, or a missing zero or copy changes what it says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "runner/step_executor.h"

namespace unspool {

class FakeExecutor final : public StepExecutor {
 public:
  static constexpr int kVocab = 48;
  static constexpr uint64_t kStale = 0xDEADBEEF;

  FakeExecutor(int num_blocks, int block_size)
      : block_size_(block_size),
        cells_(static_cast<size_t>(num_blocks) * block_size, kStale),
        experts_(cells_.size(), kStale) {}

  int vocab_size() const override { return kVocab; }
  int max_logits_rows() const override { return 3; }
  std::span<const int> non_finite_sequences() const override { return non_finite; }

  void execute(const StepPlan& plan) override {
    ++num_steps;
    num_tokens += plan.num_tokens();
    largest_step = std::max(largest_step, plan.num_tokens());
    non_finite.clear();
    if (before_execute) before_execute(plan);
    for (const int block : plan.blocks_to_zero) {
      for (int i = 0; i < block_size_; ++i) cells_[block * block_size_ + i] = 0;
    }
    for (const auto& [from, to] : plan.blocks_to_copy) {
      for (int i = 0; i < block_size_; ++i) {
        cells_[to * block_size_ + i] = cells_[from * block_size_ + i];
        experts_[to * block_size_ + i] = experts_[from * block_size_ + i];
      }
    }
    rows_.clear();
    for (const auto& sequence : plan.sequences) run(sequence);
  }

  std::span<float> logits(int first, int count, int64_t* stride) override {
    *stride = kVocab + 5;
    logits_.assign(static_cast<size_t>(count * *stride), 1e30f);
    for (int r = 0; r < count; ++r) {
      for (int v = 0; v < kVocab; ++v) {
        logits_[r * *stride + v] = static_cast<float>(mix(rows_[first + r] + v + weights) % 10007) / 2000.0f;
      }
      if (poison_logits) logits_[r * *stride] = std::numeric_limits<float>::quiet_NaN();
    }
    return logits_;
  }

  // What a token went to depends on all before it, and lies in the blocks as the keys do.
  RoutedExpertsShape routed_experts() const override { return {.layers = 2, .top_k = 3, .id_bytes = 1}; }
  void read_routed_experts(std::span<const int32_t> block_table, int first, int last, std::byte* out) const override {
    for (int p = first; p < last; ++p) {
      const uint64_t experts = experts_.at(block_table[p / block_size_] * block_size_ + p % block_size_);
      for (int i = 0; i < 6; ++i) *out++ = static_cast<std::byte>(experts >> (8 * i));
    }
  }

  std::function<void(const StepPlan&)> before_execute;  // may throw
  bool poison_logits = false;
  uint64_t weights = 0;  // other ones say other things
  // The cache's memory has gone, or is back.
  void fill_cache(uint64_t value) {
    for (auto* content : {&cells_, &experts_}) std::fill(content->begin(), content->end(), value);
  }
  std::vector<int> non_finite;  // of one step: set it in before_execute
  int num_steps = 0;
  int num_tokens = 0;
  int largest_step = 0;

 private:
  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ULL;
    return x ^ (x >> 29);
  }

  uint64_t& cell(const ScheduledSequence& s, int position) {
    return cells_[s.block_table.at(position / block_size_) * block_size_ + position % block_size_];
  }

  void run(const ScheduledSequence& s) {
    const int end = s.start + static_cast<int>(s.token_ids.size());
    for (int p = s.start; p < end; ++p) {
      const int block_start = p / block_size_ * block_size_;
      const bool whole = s.start <= block_start && block_start + block_size_ <= end;  // may have held anything
      if (!whole && cell(s, p) != 0) throw std::logic_error("a slot was written twice, or its block not zeroed");
      cell(s, p) = mix(static_cast<uint64_t>(s.token_ids[p - s.start]) * 1000003 + p + 1 + weights) | 1;
    }
    const int covered = (end + block_size_ - 1) / block_size_ * block_size_;
    for (int p = end; p < covered; ++p) {
      if (cell(s, p) != 0) throw std::logic_error("a slot beyond the sequence is not zero");
    }
    std::vector<uint64_t> history(end + 1, 17);
    for (int p = 0; p < end; ++p) {
      if (cell(s, p) == 0) throw std::logic_error("a slot was read before it was written");
      history[p + 1] = mix(history[p] * 31 + cell(s, p));
      if (p >= s.start) experts_[&cell(s, p) - cells_.data()] = mix(history[p + 1] + weights);
    }
    for (const int row : s.logits_rows) rows_.push_back(history[s.start + row + 1]);
  }

  int block_size_;
  std::vector<uint64_t> cells_;
  std::vector<uint64_t> experts_;
  std::vector<uint64_t> rows_;  // the history that each row of logits has seen
  std::vector<float> logits_;
};

}  // namespace unspool
