// Constrained requests: they wait for their grammar in the queue, and each of their samples follows it.
#include <mutex>
#include <utility>

#include "base/check.h"
#include "engine/engine_core.h"
#include "grammar/grammar_compiler.h"
#include "grammar/grammar_errors.h"

namespace unspool {

// Grammars come when they are ready, on other threads, and perhaps when the engine is no more.
struct EngineCore::Returns {
  std::mutex mutex;
  Post post;
};

void EngineCore::set_post(Post post) {
  if (!returns_) returns_ = std::make_shared<Returns>();
  const std::lock_guard lock(returns_->mutex);
  returns_->post = std::move(post);
}

void EngineCore::ask_for_grammar(Live& live) {
  const uint64_t id = live.request.id();
  live.request.sequence(0).ready = false;
  ++num_compiling_;
  UNSPOOL_CHECK(returns_ != nullptr, "nobody would tell that a grammar is ready");
  dependencies_.grammars->compile(
      live.request.params().structured_outputs->grammar,
      [id, returns = returns_](const GrammarCompiler::Compiled& compiled) {
        const std::lock_guard lock(returns->mutex);
        if (!returns->post) return;
        returns->post([id, compiled](EngineCore& core) { core.take_grammar(id, compiled); });
      });
}

void EngineCore::take_grammar(uint64_t id, const Result<std::shared_ptr<const CompiledGrammar>>& compiled) {
  --num_compiling_;
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;  // gone meanwhile
  Live& live = *found->second;
  if (!compiled.ok()) {
    fail(live, blame_field(*live.request.params().structured_outputs, compiled.error()));
    emit();
    return;
  }
  live.grammar = *compiled;
  add_constraints(live);
  scheduler_.set_ready(live.request.sequence(0));
}

void EngineCore::add_constraints(Live& live) {
  if (!live.grammar) return;
  const SamplingParams& params = live.request.params();
  std::vector<int32_t> stops = params.extra_eos_token_ids;
  stops.insert(stops.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  if (params.eos_token_id) stops.push_back(*params.eos_token_id);
  while (static_cast<int>(live.constraints.size()) < live.request.num_sequences()) {
    live.constraints.push_back(std::make_shared<Constraint>(
        live.grammar, stops, params.structured_outputs->reasoning_ends, dependencies_.executor->vocab_size()));
    live.num_followed.push_back(0);
  }
}

void EngineCore::start_masks(const StepPlan& plan) {
  const auto scheduled = scheduler_.scheduled();
  mask_rows_.clear();
  masks_.assign(scheduled.size(), {});
  mask_errors_.assign(scheduled.size(), std::nullopt);
  masked_sequences_.clear();
  for (size_t i = 0; i < scheduled.size(); ++i) {
    const Sequence& sequence = *scheduled[i];
    if (sequence.request.params().structured_outputs == nullptr) continue;
    const ScheduledSequence& rows = plan.sequences[i];
    if (rows.start + static_cast<int>(rows.token_ids.size()) < sequence.num_tokens()) continue;  // draws nothing yet
    Live& live = live_of(sequence);
    const auto& output = sequence.output_token_ids;
    size_t& followed = live.num_followed[sequence.index];
    mask_rows_.push_back({live.constraints[sequence.index],
                          {output.begin() + static_cast<std::ptrdiff_t>(followed), output.end()},
                          std::nullopt});
    followed = output.size();
    masked_sequences_.push_back(i);
  }
  grammar_masks_.start(mask_rows_);
}

void EngineCore::take_masks() {
  const auto scheduled = scheduler_.scheduled();
  grammar_masks_.finish(mask_rows_);
  for (size_t k = 0; k < mask_rows_.size(); ++k) {
    const size_t i = masked_sequences_[k];
    if (mask_rows_[k].error) {
      // The same text would cost another thread each time.
      if (mask_rows_[k].error->kind == ErrorKind::kInvalidArgument) {
        const Sequence& sequence = *scheduled[i];
        dependencies_.grammars->condemn(sequence.request.params().structured_outputs->grammar, *mask_rows_[k].error);
      }
      mask_errors_[i] = std::move(mask_rows_[k].error);
    } else {
      masks_[i] = mask_rows_[k].constraint->mask();
    }
  }
}

}  // namespace unspool
