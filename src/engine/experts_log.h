// Keeps, for every sample, which experts its tokens went to when they were first computed: a later computation, after a
// preemption and perhaps under other weights, is not what the sample was drawn from.
#pragma once

#include <optional>

#include "request/request.h"
#include "runner/step_executor.h"

namespace unspool {

class ExpertsLog {
 public:
  explicit ExpertsLog(const StepExecutor& executor) : executor_(executor), shape_(executor.routed_experts()) {}

  // After a step that computed them: the whole prompt, when its first tokens are drawn; and what of a sample's output
  // is new.
  void add_prompt(Request& request, const ScheduledSequence& computed) const;
  void add_output(Sequence& sequence, const ScheduledSequence& computed) const;
  // Nothing where none are kept, and for a sample that has drawn nothing.
  std::optional<RoutedExperts> of(const Sequence& sequence) const;

 private:
  const StepExecutor& executor_;
  RoutedExpertsShape shape_;
};

}  // namespace unspool
