// What the bodies of completions and chat have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/field_reader.h"
#include "protocol/sampling_fields.h"
#include "protocol/serving_config.h"

namespace unspool {

struct StreamOptions {
  bool include_usage = false;
  bool continuous_usage_stats = false;
};

struct OpenAiRequest {
  std::optional<std::string> model;
  SamplingFields sampling;
  bool echo = false;
  bool stream = false;
  StreamOptions stream_options;
  std::optional<int64_t> truncate_prompt_tokens;
  std::optional<std::string> truncation_side;
  bool add_special_tokens = true;
  int64_t priority = 0;
  std::string request_id;  // empty: make one
  std::optional<bool> return_tokens_as_token_ids;
  bool return_token_ids = false;
  std::string cache_salt;
};

// A bool that may be null.
bool read_flag(FieldReader& reader, const char* name);
void read_stop(FieldReader& reader, SamplingFields& out, const ServingConfig& config);
StreamOptions read_stream_options(FieldReader& reader);
// What both declare last, in the reference's order.
void read_closing_fields(FieldReader& reader, OpenAiRequest& out);

// The reference's own validators, which run before any field is read.
MaybeError check_stream_options(const JsonValue& body);
MaybeError check_cache_salt(const JsonValue& salt);
// `names` are counts of log-probs: whole numbers, of which `prompt_logprobs` has no place in a stream, 0 or more or -1.
MaybeError check_logprob_counts(const JsonValue& body, const char* const (&names)[2]);

// Refuses by name what this server does not do: beam search, watermarks, embeddings, KV transfer.
MaybeError check_unsupported(const JsonValue& object);

}  // namespace unspool
