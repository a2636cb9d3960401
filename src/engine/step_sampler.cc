#include "engine/step_sampler.h"

#include <algorithm>

namespace unspool {

StepSampler::StepSampler(StepExecutor& executor, Sampler& sampler, ThreadPool& pool)
    : executor_(executor), sampler_(sampler), pool_(pool) {
  sampler_.reserve(pool_.size());
}

std::span<SampleResult> StepSampler::draws(int i) {
  return std::span(draws_).subspan(outcomes_[i].first_draw, outcomes_[i].num_draws);
}

std::span<PositionLogprobs> StepSampler::prompt_rows(int i) {
  return std::span(prompt_rows_).subspan(outcomes_[i].first_prompt_row, outcomes_[i].num_prompt_rows);
}

void StepSampler::run(const StepPlan& plan, std::span<Sequence* const> sequences,
                      std::span<const std::span<const uint32_t>> masks) {
  list_tasks(plan, sequences);
  const int num_rows = static_cast<int>(row_offsets_.size());
  size_t first_task = 0;
  for (int first = 0; first < num_rows;) {
    const int count = std::min(executor_.max_logits_rows(), num_rows - first);
    int64_t stride = 0;
    const std::span<float> logits = executor_.logits(first, count, &stride);
    const std::span<const BlockStat> blocks = executor_.logits_blocks();
    const size_t row_blocks = blocks.size() / static_cast<size_t>(count);
    size_t end_task = first_task;
    while (end_task < tasks_.size() && tasks_[end_task].row < first + count) ++end_task;
    pool_.parallel_for(static_cast<int64_t>(end_task - first_task), [&](int64_t index, int thread) {
      const Task& task = tasks_[first_task + static_cast<size_t>(index)];
      const auto row = static_cast<size_t>(task.row - first);
      run_task(task, plan, *sequences[task.sequence],
               {logits.subspan(row * static_cast<size_t>(stride), static_cast<size_t>(executor_.vocab_size())),
                blocks.subspan(row * row_blocks, row_blocks), masks[task.sequence]},
               thread);
    });
    first_task = end_task;
    first += count;
  }
  for (const Task& task : tasks_) {
    if (task.sample >= 0 ? !draws_[task.slot].finite : prompt_rows_[task.slot].empty()) {
      outcomes_[task.sequence].finite = false;
      outcomes_[task.sequence].barred = task.sample >= 0 && draws_[task.slot].barred;
    }
  }
  for (const int i : executor_.non_finite_sequences()) {
    outcomes_[i].finite = false;
    outcomes_[i].barred = false;
  }
}

void StepSampler::list_tasks(const StepPlan& plan, std::span<Sequence* const> sequences) {
  tasks_.clear();
  row_offsets_.clear();
  outcomes_.assign(sequences.size(), {});
  int num_draws = 0;
  int num_prompt_rows = 0;
  for (int i = 0; i < static_cast<int>(sequences.size()); ++i) {
    const ScheduledSequence& scheduled = plan.sequences[i];
    const Request& request = sequences[i]->request;
    Outcome& outcome = outcomes_[i];
    outcome.first_draw = num_draws;
    outcome.first_prompt_row = num_prompt_rows;
    for (const int offset : scheduled.logits_rows) {
      const int row = static_cast<int>(row_offsets_.size());
      row_offsets_.push_back(offset);
      if (scheduled.start + offset < request.prompt_length() - 1) {
        tasks_.push_back({row, i, -1, num_prompt_rows++});
        continue;
      }
      const int first_sample = sequences[i]->index;
      const int num_samples = request.forked() ? 1 : request.params().n;
      for (int k = 0; k < num_samples; ++k) tasks_.push_back({row, i, first_sample + k, num_draws++});
    }
    outcome.num_draws = num_draws - outcome.first_draw;
    outcome.num_prompt_rows = num_prompt_rows - outcome.first_prompt_row;
  }
  draws_.assign(num_draws, {});
  prompt_rows_.assign(num_prompt_rows, {});
}

void StepSampler::run_task(const Task& task, const StepPlan& plan, const Sequence& sequence, const LogitsRow& row,
                           int thread) {
  const Request& request = sequence.request;
  const auto& prompt = request.spec().prompt_token_ids;
  const int position = plan.sequences[task.sequence].start + row_offsets_[task.row];
  if (task.sample < 0) {
    prompt_rows_[task.slot] = sampler_.prompt_logprobs({.logits = row.values,
                                                        .token_id = prompt[position + 1],
                                                        .count = *request.params().prompt_logprobs,
                                                        .mode = request.params().logprobs_mode,
                                                        .blocks = row.blocks},
                                                       thread);
    return;
  }
  draws_[task.slot] = sampler_.sample({.logits = row.values,
                                       .params = &request.params(),
                                       .prompt_token_ids = prompt,
                                       .output_token_ids = sequence.output_token_ids,
                                       .seed = request.seed_of(task.sample),
                                       .position = position + 1,
                                       .blocks = row.blocks,
                                       .allowed = row.mask},
                                      thread);
}

}  // namespace unspool
