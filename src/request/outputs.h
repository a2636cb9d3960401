// What the engine hands back, step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "request/routed_experts.h"

namespace unspool {

enum class FinishReason { kStop, kLength, kAbort, kRepetition, kError };
const char* to_string(FinishReason reason);  // "stop", "length", "abort", "repetition", "error"

// null, the stop token's id, or the stop string ("repetition_detected" for kRepetition).
using StopReason = std::variant<std::monostate, int32_t, std::string>;

struct TokenLogprob {
  int32_t token_id = 0;
  float logprob = 0.0f;  // -inf for a token that truncation removed (processed modes)
  int32_t rank = 0;      // 1 is the best: the number of vocabulary entries with a value at least this one's
};

// One position: the sampled (or prompt) token first, then the best by rank, without repeating an id.
using PositionLogprobs = std::vector<TokenLogprob>;

// Output tokens [start, end) were drawn under weights `version`.
struct WeightVersionSpan {
  std::string version;
  int start = 0;
  int end = 0;
};

// What one sample (choice) gained since the last output.
struct SequenceDelta {
  int index = 0;  // 0 .. n-1 within its request
  std::vector<int32_t> token_ids;
  std::string text;                           // whole characters; stop strings already applied and held back
  std::vector<PositionLogprobs> logprobs;     // one a token, where asked for
  std::vector<float> kept_logprobs;           // one a token, where asked for
  std::optional<FinishReason> finish_reason;  // set exactly once, on the last delta of this index
  StopReason stop_reason;
  std::vector<WeightVersionSpan> weight_versions;  // on the last delta: all of the sample's output
  // On the last delta, where they are kept: of the prompt from routed_experts_prompt_start on, and of every output
  // token but the last. Unset where the sample has drawn nothing.
  std::optional<RoutedExperts> routed_experts;
};

struct RequestOutput {
  std::vector<SequenceDelta> deltas;
  // Set once, before or with the first delta, where asked for: one entry a prompt token, the first one empty.
  std::optional<std::vector<PositionLogprobs>> prompt_logprobs;
  int num_cached_tokens = 0;  // prompt tokens that the prefix cache gave
  bool finished = false;      // every sample has its finish_reason, or `error` is set
  std::optional<Error>
      error;  // the request failed: kInvalidArgument for what the engine refused, kInternal for our fault
};

}  // namespace unspool
