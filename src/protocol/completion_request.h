// The body of POST /v1/completions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "json/json.h"
#include "protocol/api_error.h"
#include "protocol/openai_request.h"
#include "protocol/serving_config.h"

namespace unspool {

using TextOrIds = std::variant<std::string, std::vector<int64_t>>;

struct CompletionRequest : OpenAiRequest {
  std::vector<TextOrIds> prompts;
  std::optional<std::string> suffix;

  // Max tokens as asked for: 0 (with echo) scores the prompt alone.
  bool scores_only() const { return echo && sampling.max_tokens == 0; }
};

ApiResult<CompletionRequest> parse_completion_request(const JsonValue& body, const ServingConfig& config);

}  // namespace unspool
