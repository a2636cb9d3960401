// How requests enter the engine, and how they leave it before their end.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "engine/engine_core.h"

namespace unspool {

namespace {

// One step of splitmix64: neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

void EngineCore::add(uint64_t id, EngineRequest spec) {
  if (auto error = refusal(spec)) {
    RequestOutput output;
    output.finished = true;
    output.error = std::move(error);
    deliver(spec.sink, std::move(output));
    return;
  }
  const int64_t priority = config_.scheduling_policy == SchedulingPolicy::kPriority ? spec.priority : 0;
  const uint64_t seed = seed_for(spec.params);
  by_external_id_.emplace(spec.external_id, id);
  auto live = std::make_unique<Live>(id, std::move(spec), seed, ScheduleKey{priority, num_arrived_++, 0});
  live->num_unfinished = live->request.params().n;
  live->processors.emplace_back(dependencies_.tokenizer, live->request);
  Live& added = *requests_.emplace(id, std::move(live)).first->second;
  if (added.request.params().structured_outputs) ask_for_grammar(added);
  scheduler_.add(added.request.sequence(0));
  publish_load();
}

std::optional<Error> EngineCore::refusal(const EngineRequest& spec) {
  if (auto error = state_.refusal(Command::kRequest)) return error;
  const int prompt_length = static_cast<int>(spec.prompt_token_ids.size());
  if (prompt_length == 0) return invalid_argument("The prompt is empty.");
  const int vocab_size = dependencies_.executor->vocab_size();
  for (const int32_t token : spec.prompt_token_ids) {
    if (token < 0 || token >= vocab_size)
      return invalid_argument(fmt::format("Token id {} is out of vocabulary", token));
  }
  if (config_.max_model_len > 0 && prompt_length >= config_.max_model_len) {
    return invalid_argument(fmt::format("A prompt of {} tokens leaves no room within the maximum model length of {}.",
                                        prompt_length, config_.max_model_len));
  }
  if (!fits(prompt_length)) {
    return invalid_argument(fmt::format("A prompt of {} tokens does not fit the KV cache of {} tokens.", prompt_length,
                                        config_.num_blocks * config_.block_size));
  }
  if (spec.params.n < 1 || spec.params.max_tokens < 1) return invalid_argument("n and max_tokens must be at least 1.");
  if (!spec.params.stop.empty() && dependencies_.tokenizer == nullptr) {
    return invalid_argument("stop strings need a tokenizer; use stop_token_ids.", "stop");
  }
  if (spec.params.structured_outputs && dependencies_.grammars == nullptr) {
    return invalid_argument("This server has no structured outputs.", "structured_outputs");
  }
  // A place that is free at once is not the queue's.
  const int free_places = config_.max_num_seqs - scheduler_.num_running();
  if (config_.max_num_queued_reqs > 0 && scheduler_.num_queued() - free_places >= config_.max_num_queued_reqs) {
    metrics_.add_rejection(EngineMetrics::Rejection::kRequests);
    return Error{
        ErrorKind::kUnavailable,
        "The engine is currently busy and cannot accept new requests. Please try again later or on a different "
        "instance.",
        {}};
  }
  if (config_.max_num_queued_tokens > 0 && scheduler_.num_queued_tokens() >= config_.max_num_queued_tokens) {
    metrics_.add_rejection(EngineMetrics::Rejection::kTokens);
    return Error{ErrorKind::kUnavailable,
                 "The engine has reached its prefill token backlog limit. Please try again later or on a different "
                 "instance.",
                 {}};
  }
  return std::nullopt;
}

uint64_t EngineCore::seed_for(const SamplingParams& params) {
  if (params.seed) return static_cast<uint64_t>(*params.seed);
  return mix(mix(static_cast<uint64_t>(config_.seed)) + num_seeds_drawn_++);
}

void EngineCore::drop(uint64_t id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  Request& request = found->second->request;
  for (int i = 0; i < request.num_sequences(); ++i) {
    if (!request.sequence(i).finished()) {
      metrics_.add_finished(request.sequence(i), FinishReason::kAbort, monotonic_seconds());
    }
  }
  // Nobody has seen what it drew, so nobody will continue it.
  remove_sequences(*found->second, /*forget_output=*/true);
  forget(id);
  publish_load();
}

void EngineCore::abort(const std::vector<std::string>& external_ids) {
  for (const auto& external_id : external_ids) {
    const auto [begin, end] = by_external_id_.equal_range(external_id);
    for (auto it = begin; it != end; ++it) abort(*requests_.at(it->second));
  }
  emit();
}

void EngineCore::abort_all() {
  for (auto& [id, live] : requests_) abort(*live);
  emit();
}

int EngineCore::num_abortable() const {
  int count = 0;
  for (const auto& [id, live] : requests_) count += live->num_unfinished + (live->request.params().n > 1 ? 1 : 0);
  return count;
}

void EngineCore::abort(Live& live) {
  if (live.num_unfinished == 0) return;
  for (int i = 0; i < live.request.params().n; ++i) {
    if (i < live.request.num_sequences()) {
      Sequence& sequence = live.request.sequence(i);
      if (!sequence.finished()) finish_without_token(live, sequence, FinishReason::kAbort);
      continue;
    }
    // Not forked yet: the sample ends before it began.
    SequenceDelta delta;
    delta.index = i;
    delta.finish_reason = FinishReason::kAbort;
    live.output.deltas.push_back(std::move(delta));
    --live.num_unfinished;
  }
  touch(live);
}

void EngineCore::forget(uint64_t id) {
  const auto found = requests_.find(id);
  const auto [begin, end] = by_external_id_.equal_range(found->second->request.spec().external_id);
  by_external_id_.erase(std::find_if(begin, end, [id](const auto& entry) { return entry.second == id; }));
  requests_.erase(found);
}

}  // namespace unspool
