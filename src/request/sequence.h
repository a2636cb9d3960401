// One sample of a request: what the scheduler moves through the cache.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv_cache/block_table.h"
#include "kv_cache/token_view.h"
#include "request/outputs.h"

namespace unspool {

class Request;

enum class SequenceState {
  kWaiting,  // for its first admission, or after a preemption, or forked without a place: holds no blocks
  kRunning,
  kFinished,
};

// The one order of service: who is admitted first, who gets the last block, and, from the other end, who is preempted.
struct ScheduleKey {
  int64_t priority = 0;  // lower first; 0 for all under first come, first served
  int64_t arrival = 0;
  int index = 0;
  auto operator<=>(const ScheduleKey&) const = default;
};

// monotonic_seconds(); 0 where it has not happened.
struct SequenceTimes {
  double first_scheduled_s = 0.0;
  double first_token_s = 0.0;
  double last_token_s = 0.0;
};

struct Sequence {
  Sequence(Request& owner, int sample_index);
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int num_tokens() const;  // prompt and output
  TokenView tokens() const;
  // Tokens whose keys and values are not in the cache; 1 for a sequence that decodes.
  int num_tokens_to_compute() const { return num_tokens() - num_computed_tokens; }
  bool finished() const { return state == SequenceState::kFinished; }

  // Appends a token drawn under weights `version`. Spans of one version are one, unless `opens_span` is set.
  void append_token(int32_t token_id, const std::string& version);

  Request& request;
  const int index;
  const int64_t id;  // unique in the engine
  const ScheduleKey key;

  std::vector<int32_t> output_token_ids;
  std::vector<WeightVersionSpan> weight_versions;
  std::vector<std::byte> output_experts;  // of the output tokens, as they were when each was first computed

  bool ready = true;  // false: not to be admitted yet, whatever its place in the order

  // The scheduler's.
  SequenceState state = SequenceState::kWaiting;
  BlockTable blocks;
  int num_computed_tokens = 0;
  int num_scheduled_tokens = 0;  // in the step being planned or computed
  bool admitted_before = false;
  int num_preemptions = 0;
  int weights_epoch = 0;    // of the keys and values it holds, or held last
  bool opens_span = false;  // computed again under other weights: the next token's context is not that of the last
  SequenceTimes times;
};

}  // namespace unspool
