// What the derender routes have in common, whole replies and chunks: the request that is answered, and what it says of
// its reply.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/chat_reply.h"
#include "protocol/chat_request.h"
#include "protocol/completion_request.h"
#include "protocol/token_response.h"

namespace unspool {

// What both routes refuse before they read their own fields.
MaybeError check_derender_body(const JsonValue& body, const ServingConfig& config);

// Without "chat_request": one without conversations.
ApiResult<ChatRequest> read_chat_request(const JsonValue& body, const ServingConfig& config);
ApiResult<std::optional<CompletionRequest>> read_completion_request(const JsonValue& body, const ServingConfig& config);

ReplyOptions derendered_reply_options(std::string id, size_t n, const std::vector<AnsweredPrompt>& prompts,
                                      const ServingConfig& config);
ChatReplyOptions derendered_chat_options(const ChatRequest& request, bool has_logprobs, const ServingConfig& config);
bool skips_special_tokens(const ChatRequest& request, const ChatReplyOptions& chat);

}  // namespace unspool
