// What the protocol needs to know of the server it speaks for. Set once at start.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/chat_config.h"
#include "request/sampling_params.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

// --generation-config and --override-generation-config: what a request gets where it says nothing.
struct DefaultSampling {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  std::optional<int64_t> max_tokens;       // max_new_tokens, where a route has no default of its own
  std::optional<int64_t> hard_max_tokens;  // caps every request
};

// f(of a, of b) for each field of sampling that has a default, of any two structs that have them by these names.
template <class A, class B, class F>
void for_each_default(A& a, B& b, F f) {
  f(a.temperature, b.temperature);
  f(a.top_p, b.top_p);
  f(a.top_k, b.top_k);
  f(a.min_p, b.min_p);
  f(a.presence_penalty, b.presence_penalty);
  f(a.frequency_penalty, b.frequency_penalty);
  f(a.repetition_penalty, b.repetition_penalty);
}

struct ServingConfig {
  std::vector<std::string> served_model_names;  // not empty; replies name the first
  std::string model_root;                       // --model as given
  int max_model_len = 0;
  int vocab_size = 0;  // the model's
  int max_num_seqs = 256;

  std::shared_ptr<const Tokenizer> tokenizer;  // null: token ids only
  std::optional<int32_t> eos_token_id;         // the tokenizer's
  std::vector<int32_t> extra_eos_token_ids;    // generation_config's others
  DefaultSampling defaults;
  ChatConfig chat;

  int max_logprobs = 20;  // -1: no limit
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  int stream_interval = 1;
  bool tokens_only = false;
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false;
  bool enable_force_include_usage = false;
  bool enable_per_request_metrics = false;
  std::optional<std::string> system_fingerprint;

  // --structured-outputs-config, and why there is no grammar engine (empty: there is one).
  bool disable_any_whitespace = false;
  bool enforce_in_reasoning = false;  // a grammar binds from the first token, reasoning or not
  std::string no_structured_outputs = "This server has no structured outputs.";

  // Limits that environment variables move.
  int64_t max_stop_strings = 4;
  int64_t max_completion_prompts = 1024;
  int64_t max_n = 16384;
  int64_t max_bad_words = 128;
  bool skip_model_name_validation = false;

  const std::string& model_name() const { return served_model_names.front(); }
  int effective_max_logprobs() const { return max_logprobs == -1 ? vocab_size : max_logprobs; }
};

// "raw_logprobs" and its kin; nullopt for any other name.
std::optional<LogprobsMode> parse_logprobs_mode(std::string_view name);
const char* to_string(LogprobsMode mode);

}  // namespace unspool
