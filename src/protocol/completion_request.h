// The body of POST /v1/completions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/sampling_fields.h"
#include "protocol/serving_config.h"

namespace unspool {

using TextOrIds = std::variant<std::string, std::vector<int64_t>>;

struct StreamOptions {
  bool include_usage = false;
  bool continuous_usage_stats = false;
};

struct CompletionRequest {
  std::optional<std::string> model;
  std::vector<TextOrIds> prompts;
  SamplingFields sampling;
  bool echo = false;
  bool stream = false;
  StreamOptions stream_options;
  std::optional<std::string> suffix;
  std::optional<int64_t> truncate_prompt_tokens;
  std::optional<std::string> truncation_side;
  bool add_special_tokens = true;
  int64_t priority = 0;
  std::string request_id;  // empty: make one
  std::optional<bool> return_tokens_as_token_ids;
  bool return_token_ids = false;
  std::string cache_salt;

  // Max tokens as asked for: 0 (with echo) scores the prompt alone.
  bool scores_only() const { return echo && sampling.max_tokens == 0; }
};

ApiResult<CompletionRequest> parse_completion_request(const JsonValue& body, const ServingConfig& config);

// Shared with the generate route.
MaybeError check_cache_salt(const JsonValue& salt);
StreamOptions read_stream_options(FieldReader& reader);
// Refuses by name what this server does not do: beam search, watermarks, embeddings, KV transfer.
MaybeError check_unsupported(const JsonValue& object);

}  // namespace unspool
