// From a prompt as sent to token ids within the model's context.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/completion_request.h"
#include "protocol/serving_config.h"

namespace unspool {

struct PromptTokens {
  std::string text;          // for echo, only where asked for
  std::vector<int64_t> ids;  // as sent; may hold ids that are out of vocabulary
  bool operator==(const PromptTokens&) const = default;
};

// The limits that hold whatever the prompts are: max_tokens and truncate_prompt_tokens against the context.
// Chat has two names for the first.
MaybeError check_token_limits(const OpenAiRequest& request, const ServingConfig& config,
                              const char* max_tokens_name = "max_tokens");
ApiResult<PromptTokens> tokenize_text(const std::string& text, const OpenAiRequest& request,
                                      const ServingConfig& config);
ApiResult<PromptTokens> tokenize_prompt(const TextOrIds& prompt, const CompletionRequest& request,
                                        const ServingConfig& config);

// Ids as the engine takes them; those beyond 32 bits (refused elsewhere) become -1.
std::vector<int32_t> to_token_ids(const std::vector<int64_t>& ids);

}  // namespace unspool
