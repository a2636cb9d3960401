// The body of POST /inference/v1/generate: token ids in, token ids out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/completion_request.h"

namespace unspool {

enum class OutputMode { kTokens, kText };

struct GenerateRequest {
  std::string request_id;  // empty: make one
  std::vector<int64_t> token_ids;
  SamplingFields sampling;
  bool max_tokens_given = false;  // even as null
  std::optional<std::string> model;
  bool return_token_ids = false;
  OutputMode output_mode = OutputMode::kTokens;
  bool stream = false;
  StreamOptions stream_options;
  std::string cache_salt;
  int64_t priority = 0;
};

// Checks everything that does not depend on the prompt's length, sampling ranges included.
ApiResult<GenerateRequest> parse_generate_request(const JsonValue& body, const ServingConfig& config);

}  // namespace unspool
