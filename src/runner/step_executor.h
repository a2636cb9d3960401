// The seam between the engine and the model: what the engine needs to carry out a StepPlan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/vocab_kernels.h"
#include "request/routed_experts.h"
#include "scheduler/step_plan.h"

namespace unspool {

// ModelRunner is the real one; tests of the engine use one with predictable logits.
class StepExecutor {
 public:
  virtual ~StepExecutor() = default;

  virtual int vocab_size() const = 0;
  // Runs the plan up to the final norm. Throws CheckFailure or std::bad_alloc on a fault of ours; the engine then fails
  // the step's requests and returns their blocks. Nothing outside the plan's blocks is changed.
  virtual void execute(const StepPlan& plan) = 0;
  // Of the last execute(): sequences (indices into plan.sequences) whose keys or values were not finite.
  virtual std::span<const int> non_finite_sequences() const = 0;
  // Logits of rows [first, first + count) of the last plan, counted over plan.sequences' logits_rows in order.
  // Returns [count, vocab_size] rows, `stride` floats apart; valid until the next call. count <= max_logits_rows().
  virtual std::span<float> logits(int first, int count, int64_t* stride) = 0;
  // Of the rows that logits() gave last: [count, vocab_blocks(vocab_size)]; or empty, where they are not known.
  virtual std::span<const BlockStat> logits_blocks() const { return {}; }
  virtual int max_logits_rows() const = 0;  // bounds what logits() holds at once

  // What is kept of the experts that tokens went to, beside their keys and values: in the same blocks, for as long.
  virtual RoutedExpertsShape routed_experts() const { return {}; }
  // Of positions [first, last) of a sequence, all of which were computed: rows of routed_experts().row_bytes().
  virtual void read_routed_experts(std::span<const int32_t> /*block_table*/, int /*first*/, int /*last*/,
                                   std::byte* /*out*/) const {}
};

}  // namespace unspool
