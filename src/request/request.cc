#include "request/request.h"

#include <algorithm>

#include "base/check.h"

namespace unspool {

Request::Request(uint64_t id, EngineRequest spec, uint64_t seed, ScheduleKey key)
    : id_(id), spec_(std::move(spec)), seed_(seed), key_(key) {
  sequences_.push_back(std::make_unique<Sequence>(*this, 0));
  if (wants_prompt_logprobs()) prompt_logprobs_.emplace_back();
}

void Request::fork() {
  UNSPOOL_CHECK(!forked_, "request {} is forked already", id_);
  forked_ = true;
  for (int i = 1; i < params().n; ++i) sequences_.push_back(std::make_unique<Sequence>(*this, i));
}

bool Request::all_finished() const {
  const bool all_here = forked_ || params().n == 1;
  return all_here && std::all_of(sequences_.begin(), sequences_.end(), [](const auto& s) { return s->finished(); });
}

void Request::add_prompt_row(PositionLogprobs position) {
  ++num_prompt_rows_;
  prompt_logprobs_.push_back(std::move(position));
}

int Request::max_cached_tokens(const Sequence& sequence) const {
  if (params().skip_reading_prefix_cache) return 0;
  const int row = first_wanted_prompt_row();
  return row < prompt_length() - 1 ? row : sequence.num_tokens() - 1;
}

}  // namespace unspool
