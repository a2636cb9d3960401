// What a request asks of the sampler. Names and meanings are vLLM's; validation is protocol's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "request/structured_outputs.h"

namespace unspool {

// Which values a log-prob is taken from; raw: before any processing, processed: after truncation (numerics.md, section
// 4).
enum class LogprobsMode { kRawLogprobs, kRawLogits, kProcessedLogprobs, kProcessedLogits };

// Stops a sequence whose last tokens are `min_count` repeats of a pattern of min_pattern_size..max_pattern_size tokens.
struct RepetitionDetection {
  int max_pattern_size = 0;
  int min_pattern_size = 0;
  int min_count = 0;
};

struct SamplingParams {
  int n = 1;
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f;
  int top_k = 0;  // 0 or -1: off
  float min_p = 0.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  float repetition_penalty = 1.0f;
  std::optional<int64_t> seed;  // sample i uses seed + i; unset: the engine draws one
  int max_tokens = 16;
  int min_tokens = 0;

  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;       // reported as stop_reason
  std::optional<int32_t> eos_token_id;       // the primary EOS; unset where the model has none
  std::vector<int32_t> extra_eos_token_ids;  // from generation_config: stop like stop_token_ids unless ignore_eos
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;

  std::optional<int> logprobs;             // candidates beside the sampled token; -1: the whole vocabulary
  std::optional<int> prompt_logprobs;      // as logprobs, for every prompt token but the first
  std::vector<int32_t> logprob_token_ids;  // report these instead of the best `logprobs`
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  int routed_experts_prompt_start = 0;  // prompt tokens whose experts are left out of the reply
  bool return_kept_mass = false;        // per token, the log of the probability mass that truncation kept

  std::vector<std::pair<int32_t, float>> logit_bias;
  std::optional<std::vector<int32_t>> allowed_token_ids;
  std::vector<std::vector<int32_t>> bad_words_token_ids;  // sequences whose last token is barred after their first ones
  std::optional<RepetitionDetection> repetition_detection;
  std::shared_ptr<const StructuredOutputs> structured_outputs;  // null: free text

  bool detokenize = true;
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;
  bool skip_reading_prefix_cache = false;

  bool greedy() const { return temperature == 0.0f; }
};

}  // namespace unspool
