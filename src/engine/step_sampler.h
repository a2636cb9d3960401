// Draws the tokens and computes the log-probs of one step, over all threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "request/request.h"
#include "runner/step_executor.h"
#include "sampling/sampler.h"
#include "threading/thread_pool.h"

namespace unspool {

class StepSampler {
 public:
  StepSampler(StepExecutor& executor, Sampler& sampler, ThreadPool& pool);

  // Of the plan that the executor has just executed; `sequences` stand in the plan's order. Logits are asked for in
  // chunks of the executor's choosing, so a prompt's worth of them never exists at once.
  // `masks` too: the tokens that may be drawn, a bit each, empty for any.
  void run(const StepPlan& plan, std::span<Sequence* const> sequences,
           std::span<const std::span<const uint32_t>> masks);

  // What sequence i of the plan got: one draw, or one a sample where its prompt is complete and the request not forked
  // yet.
  std::span<SampleResult> draws(int i);
  std::span<PositionLogprobs> prompt_rows(int i);
  bool finite(int i) const { return outcomes_[i].finite; }
  bool barred(int i) const { return outcomes_[i].barred; }  // not finite by what its own request asks for

 private:
  struct Task {
    int row = 0;
    int sequence = 0;
    int sample = 0;  // of the request; -1 for a prompt row
    int slot = 0;    // in draws_ or prompt_rows_
  };
  struct Outcome {
    int first_draw = 0;
    int num_draws = 0;
    int first_prompt_row = 0;
    int num_prompt_rows = 0;
    bool finite = true;
    bool barred = false;
  };

  void list_tasks(const StepPlan& plan, std::span<Sequence* const> sequences);
  struct LogitsRow {
    std::span<const float> values;
    std::span<const BlockStat> blocks;
    std::span<const uint32_t> mask;
  };
  void run_task(const Task& task, const StepPlan& plan, const Sequence& sequence, const LogitsRow& row, int thread);

  StepExecutor& executor_;
  Sampler& sampler_;
  ThreadPool& pool_;
  std::vector<Task> tasks_;       // by row
  std::vector<int> row_offsets_;  // of each row within its sequence's chunk
  std::vector<Outcome> outcomes_;
  std::vector<SampleResult> draws_;
  std::vector<PositionLogprobs> prompt_rows_;
};

}  // namespace unspool
