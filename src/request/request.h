// A request inside the engine: its prompt, and the samples that continue it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "request/engine_request.h"
#include "request/sequence.h"

namespace unspool {

class Request {
 public:
  // `seed` is that of sample 0. `key` orders the request; its index is replaced by the sample's.
  Request(uint64_t id, EngineRequest spec, uint64_t seed, ScheduleKey key);

  uint64_t id() const { return id_; }
  const EngineRequest& spec() const { return spec_; }
  const SamplingParams& params() const { return spec_.params; }
  int prompt_length() const { return static_cast<int>(spec_.prompt_token_ids.size()); }
  const ScheduleKey& key() const { return key_; }
  uint64_t seed_of(int sample) const { return seed_ + static_cast<uint64_t>(sample); }

  // Sample 0 carries the prompt; the others come to be when it is complete.
  bool forked() const { return forked_; }
  void fork();
  int num_sequences() const { return static_cast<int>(sequences_.size()); }
  Sequence& sequence(int i) { return *sequences_[i]; }
  bool all_finished() const;

  // Prompt log-probs are asked of each row once: after a preemption the rows below are computed again, not reported
  // again. Row p is that of prompt token p and predicts the next; the last row draws, so it is never among these.
  bool wants_prompt_logprobs() const { return spec_.params.prompt_logprobs.has_value(); }
  int first_wanted_prompt_row() const { return wants_prompt_logprobs() ? num_prompt_rows_ : prompt_length() - 1; }
  void add_prompt_row(PositionLogprobs position);
  std::vector<PositionLogprobs> take_prompt_logprobs() { return std::move(prompt_logprobs_); }
  // How many tokens the prefix cache may give: rows whose log-probs or draw are still wanted must be computed.
  int max_cached_tokens(const Sequence& sequence) const;

  int num_cached_tokens = 0;  // of the prompt, at the first admission
  // Of the prompt from routed_experts_prompt_start on, as they were when the first tokens were drawn from it.
  std::vector<std::byte> prompt_experts;

 private:
  uint64_t id_;
  EngineRequest spec_;
  uint64_t seed_;
  ScheduleKey key_;
  bool forked_ = false;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  int num_prompt_rows_ = 0;
  std::vector<PositionLogprobs> prompt_logprobs_;  // of tokens 0, 1, ..; nothing can be said of the first
};

}  // namespace unspool
