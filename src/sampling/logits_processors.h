// What changes logits before temperature: allowed_token_ids, logit_bias, min_tokens, penalties and bad_words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/sampling_params.h"

namespace unspool {

// The tokens so far.
struct TokenHistory {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;
};

// Ids outside of the vocabulary are refused where requests are checked; here they are passed over.
class LogitsProcessors {
 public:
  // Whether apply() would change anything at this step.
  static bool needed(const SamplingParams& params, const TokenHistory& history);

  // row = the processed logits, in this order: allowed_token_ids, logit_bias, min_tokens, then repetition, frequency
  // and presence penalty, bad_words. `row` has the size of `logits` and does not overlap it. Where a grammar has
  // `masked` the logits and leaves nothing but tokens that end the output, min_tokens gives way.
  void apply(const SamplingParams& params, const TokenHistory& history, std::span<const float> logits,
             std::span<float> row, bool masked = false);

 private:
  void apply_penalties(const SamplingParams& params, const TokenHistory& history, std::span<float> row);
  void count(int32_t id, int32_t by);

  // Per token: 0 for one not seen, else 1 + its occurrences in the output. All 0 between calls, so that a draw costs
  // the length of its history and not the vocabulary.
  std::vector<int32_t> counts_;
  std::vector<int32_t> seen_;
};

}  // namespace unspool
