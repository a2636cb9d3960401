// Whether a sequence ends with the token it has just gained. Stop strings are found in the text instead
// (stop_strings.h).
#pragma once

#include <optional>
#include <span>

#include "request/outputs.h"
#include "request/sampling_params.h"

namespace unspool {

struct Stop {
  FinishReason reason = FinishReason::kStop;
  StopReason detail;
  bool by_token = false;  // the token ended it and, unless asked for, has no place in the text
};

// In this order: primary EOS, stop token ids and the model's other EOS ids, length, repetition. `max_length` bounds
// prompt and output together; 0: no bound.
std::optional<Stop> check_stop(const SamplingParams& params, int prompt_length, std::span<const int32_t> output,
                               int max_length);

// The last tokens are `min_count` repeats of a pattern of an allowed size.
bool ends_in_repetition(const RepetitionDetection& detection, std::span<const int32_t> output);

}  // namespace unspool
