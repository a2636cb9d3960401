// Sampling parameters as a request spells them, before defaults, and the checks that turn them into SamplingParams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/field_reader.h"
#include "protocol/serving_config.h"
#include "protocol/structured_outputs.h"
#include "request/sampling_params.h"

namespace unspool {

struct SamplingFields {
  int64_t n = 1;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> seed;
  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;

  std::vector<std::string> stop;
  std::optional<std::vector<int64_t>> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_str_in_output = false;

  std::optional<int64_t> logprobs;
  std::optional<int64_t> prompt_logprobs;
  std::optional<std::vector<int64_t>> logprob_token_ids;
  std::optional<std::string> logprobs_mode;  // ours
  std::optional<bool> return_kept_mass;      // ours

  std::vector<std::pair<int64_t, double>> logit_bias;  // keys parsed
  std::vector<std::string> bad_logit_bias_keys;
  std::optional<std::vector<int64_t>> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::optional<RepetitionDetection> repetition_detection;
  MaybeError repetition_detection_error;
  std::optional<int64_t> thinking_token_budget;
  StructuredOutputsFields structured_outputs;

  bool detokenize = true;
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;
  std::optional<bool> skip_reading_prefix_cache;
  std::optional<int64_t> stream_interval;
  int64_t routed_experts_prompt_start = 0;
  std::optional<bool> watermarking;
};

// The ones that all routes read alike; `stop` and the nullability of `n` and the rest differ.
void read_common_sampling_fields(FieldReader& reader, SamplingFields& out);
// An error that pydantic would not raise: reading goes on, the first of these wins over field errors.
MaybeError check_thinking_token_budget(const JsonValue& object);

// The range checks of the reference's SamplingParams, in its order; fields hold their final values (defaults applied).
MaybeError check_sampling_ranges(const SamplingFields& fields, const ServingConfig& config);
// What the checks ask of a prompt. Ids are as the client sent them, which may be beyond 32 bits.
struct PromptFacts {
  int64_t length = 0;
  int64_t largest_id = -1;
};
// The checks the reference makes once a request reaches its engine (wire contract, "lazy").
MaybeError check_against_model(const SamplingFields& fields, PromptFacts prompt, const ServingConfig& config);
// After both checks: what the engine gets. Bad words are tokenized here, which may fail (lazily as well).
ApiResult<SamplingParams> to_sampling_params(const SamplingFields& fields, const ServingConfig& config);

}  // namespace unspool
