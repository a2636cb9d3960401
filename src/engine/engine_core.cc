#include "engine/engine_core.h"

#include <algorithm>
#include <exception>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace unspool {

EngineCore::EngineCore(EngineConfig config, EngineDependencies dependencies, uint64_t prefix_hash_seed)
    : config_(std::move(config)),
      dependencies_(std::move(dependencies)),
      kv_cache_({config_.num_blocks, config_.block_size, config_.enable_prefix_caching}, prefix_hash_seed),
      scheduler_({config_.max_num_seqs, config_.max_num_batched_tokens}, kv_cache_),
      sampler_(*dependencies_.executor, *dependencies_.sampler, *dependencies_.pool),
      experts_log_(*dependencies_.executor),
      grammar_masks_(dependencies_.pool->size()),
      metrics_(dependencies_.metrics, config_) {}

void EngineCore::deliver(const OutputSink& sink, RequestOutput output) noexcept {
  if (!sink) return;
  try {
    sink(std::move(output));
  } catch (const std::exception& e) {
    log_error("an output was lost: {}", e.what());
  }
}

void EngineCore::state_changed() {
  scheduler_.set_pause(state_.schedule());
  publish_load();
}

void EngineCore::clear_cache() {
  scheduler_.preempt_all();
  kv_cache_.invalidate_prefixes();
  metrics_.add_scheduled(scheduler_.take_counters());
  publish_load();
}

bool EngineCore::reset_prefix_cache() {
  log_info("Resetting prefix cache...");
  if (const int held = kv_cache_.num_blocks() - kv_cache_.num_free_blocks(); held > 0) {
    log_warning("Failed to reset prefix cache because some blocks ({}) are not freed yet", held);
    return false;
  }
  kv_cache_.invalidate_prefixes();
  log_info("Successfully reset prefix cache");
  return true;
}

void EngineCore::weights_changed() {
  scheduler_.weights_changed();
  kv_cache_.invalidate_prefixes();
}

void EngineCore::step() {
  const double started_s = monotonic_seconds();
  const StepPlan& plan = scheduler_.plan_step(started_s);
  for (Sequence* sequence : scheduler_.take_outgrown()) {
    finish_without_token(live_of(*sequence), *sequence, FinishReason::kLength);
  }
  if (compute(plan)) commit(plan, started_s);
  emit();
#ifdef UNSPOOL_VALIDATE
  for (const auto& violation : validate()) UNSPOOL_CHECK(false, "{}", violation);
#endif
}

bool EngineCore::compute(const StepPlan& plan) {
  if (plan.sequences.empty()) return true;
  try {
    dependencies_.executor->execute(plan);
    fill_masks(plan);
    sampler_.run(plan, scheduler_.scheduled(), masks_);
    return true;
  } catch (const std::exception& e) {
    fail_step(e.what());
  } catch (...) {
    fail_step("unknown exception");
  }
  return false;
}

void EngineCore::fail_step(const char* what) {
  log_error("a step of {} sequences failed: {}", scheduler_.scheduled().size(), what);
  for (size_t i = 0; i < scheduler_.scheduled().size(); ++i) {
    const Sequence* sequence = scheduler_.scheduled()[i];
    if (sequence != nullptr) fail(live_of(*sequence), internal_error("Internal server error"));
  }
  scheduler_.abandon_step();
}

void EngineCore::commit(const StepPlan& plan, double step_started_s) {
  const auto scheduled = scheduler_.scheduled();
  const int count = static_cast<int>(scheduled.size());
  const double now_s = monotonic_seconds();
  // What is not finite must not become a prefix hit: it goes before the others are committed.
  int num_tokens = 0;
  for (int i = 0; i < count; ++i) {
    if (scheduled[i] == nullptr) continue;
    num_tokens += scheduled[i]->num_scheduled_tokens;
    if (mask_errors_[i]) {
      fail(live_of(*scheduled[i]), std::move(*mask_errors_[i]));
      continue;
    }
    if (sampler_.finite(i)) continue;
    if (sampler_.barred(i)) {
      fail(live_of(*scheduled[i]),
           invalid_argument("The sampling parameters leave no token to generate, or make values "
                            "that are not finite: the request ended here."));
      continue;
    }
    log_error("sequence {} has values that are not finite at position {}", scheduled[i]->id,
              scheduled[i]->num_computed_tokens);
    fail(live_of(*scheduled[i]), internal_error("Internal server error: the model's values are not finite"));
  }
  scheduler_.commit_step();
  for (int i = 0; i < count; ++i) {
    if (scheduled[i] != nullptr) commit_sequence(i, plan.sequences[i], now_s);
  }
  if (count > 0) metrics_.observe_step(num_tokens, count, monotonic_seconds() - step_started_s);
}

void EngineCore::commit_sequence(int i, const ScheduledSequence& computed, double now_s) {
  Sequence& sequence = *scheduler_.scheduled()[i];
  Live& live = live_of(sequence);
  for (auto& row : sampler_.prompt_rows(i)) live.request.add_prompt_row(std::move(row));
  experts_log_.add_output(sequence, computed);
  const auto draws = sampler_.draws(i);
  if (draws.empty()) return;
  if (!live.request.forked()) {
    metrics_.add_prompt(live.request);
    experts_log_.add_prompt(live.request, computed);
    if (live.request.wants_prompt_logprobs()) live.output.prompt_logprobs = live.request.take_prompt_logprobs();
    scheduler_.fork(live.request);
    for (int k = 1; k < live.request.num_sequences(); ++k) {
      live.processors.emplace_back(dependencies_.tokenizer, live.request);
    }
    add_constraints(live);
  }
  for (size_t k = 0; k < draws.size(); ++k) {
    append_token(live, live.request.sequence(sequence.index + static_cast<int>(k)), draws[k], now_s);
  }
}

void EngineCore::append_token(Live& live, Sequence& sequence, SampleResult& result, double now_s) {
  const SamplingParams& params = live.request.params();
  sequence.append_token(result.token_id, state_.weight_version());
  metrics_.add_token(sequence, now_s);
  if (sequence.times.first_token_s == 0.0) sequence.times.first_token_s = now_s;
  sequence.times.last_token_s = now_s;

  touch(live);
  SequenceDelta& delta = live.output.deltas.emplace_back();
  delta.index = sequence.index;
  delta.token_ids.push_back(result.token_id);
  if (params.logprobs) delta.logprobs.push_back(std::move(result.logprobs));
  if (params.return_kept_mass) delta.kept_logprobs.push_back(result.kept_logprob);

  auto stop = check_stop(params, live.request.prompt_length(), sequence.output_token_ids, config_.max_model_len);
  stop = live.processors[sequence.index].push(sequence, std::move(stop), delta);
  if (stop) finish(live, sequence, *stop, delta);
}

void EngineCore::finish(Live& live, Sequence& sequence, const Stop& stop, SequenceDelta& delta) {
  scheduler_.remove(sequence);
  --live.num_unfinished;
  delta.finish_reason = stop.reason;
  delta.stop_reason = stop.detail;
  delta.weight_versions = sequence.weight_versions;
  delta.routed_experts = experts_log_.of(sequence);
  metrics_.add_finished(sequence, stop.reason, monotonic_seconds());
}

void EngineCore::finish_without_token(Live& live, Sequence& sequence, FinishReason reason) {
  touch(live);
  SequenceDelta& delta = live.output.deltas.emplace_back();
  delta.index = sequence.index;
  live.processors[sequence.index].flush(delta);
  finish(live, sequence, {reason, {}, false}, delta);
}

void EngineCore::fail(Live& live, Error error) {
  if (live.output.error) return;
  remove_sequences(live);
  live.output = {};
  live.output.error = std::move(error);
  live.num_unfinished = 0;
  metrics_.add_finished(live.request.sequence(0), FinishReason::kError, monotonic_seconds());
  touch(live);
}

void EngineCore::remove_sequences(Live& live, bool forget_output) {
  for (int i = 0; i < live.request.num_sequences(); ++i) {
    Sequence& sequence = live.request.sequence(i);
    if (!sequence.finished()) scheduler_.remove(sequence, forget_output);
  }
}

void EngineCore::touch(Live& live) {
  if (live.touched) return;
  live.touched = true;
  touched_.push_back(&live);
}

void EngineCore::emit() {
  metrics_.add_scheduled(scheduler_.take_counters());
  publish_load();  // before the last outputs: who has seen them finds the gauges right
  for (Live* live : touched_) {
    live->touched = false;
    live->output.finished = live->num_unfinished == 0;
    const bool finished = live->output.finished;
    if (finished && !live->output.error) metrics_.add_finished_request(live->request);
    live->output.num_cached_tokens = live->request.num_cached_tokens;
    deliver(live->request.spec().sink, std::exchange(live->output, {}));
    if (finished) forget(live->request.id());
  }
  touched_.clear();
}

void EngineCore::fail_all() noexcept {
  state_.fail();
  touched_.clear();
  for (auto& [id, live] : std::exchange(requests_, {})) {
    RequestOutput output;
    output.finished = true;
    output.error = internal_error("Internal server error");
    deliver(live->request.spec().sink, std::move(output));
  }
  by_external_id_.clear();
  publish_load(0, 0, 0.0);
}

void EngineCore::publish_load() {
  publish_load(scheduler_.num_running(), scheduler_.num_waiting(), kv_cache_.usage());
}

void EngineCore::publish_load(int running, int waiting, double kv_cache_usage) {
  load_.running = running;
  load_.waiting = waiting;
  load_.kv_cache_usage = kv_cache_usage;
  metrics_.set_load(running, waiting, kv_cache_usage, state_.schedule() != PauseState::kUnpaused);
}

std::vector<std::string> EngineCore::validate() const {
  auto violations = scheduler_.validate();
  for (auto& violation : state_.validate()) violations.push_back(std::move(violation));
  int unfinished = 0;
  for (const auto& [id, live] : requests_) {
    if (live->num_unfinished == 0) violations.push_back(fmt::format("request {} is finished and kept", id));
    for (int i = 0; i < live->request.num_sequences(); ++i) {
      if (!live->request.sequence(i).finished()) ++unfinished;
    }
  }
  const int scheduled = scheduler_.num_running() + scheduler_.num_waiting();
  if (unfinished != scheduled)
    violations.push_back(fmt::format("{} live samples, {} scheduled", unfinished, scheduled));
  if (by_external_id_.size() != requests_.size()) violations.push_back("external ids and requests differ");
  return violations;
}

}  // namespace unspool
