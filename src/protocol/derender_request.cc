#include "protocol/derender_request.h"

#include <utility>

#include "base/clock.h"
#include "protocol/chat_prompt.h"
#include "protocol/chat_reply_setup.h"
#include "protocol/prepare_steps.h"
#include "protocol/request_body.h"

namespace unspool {

MaybeError check_derender_body(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  std::optional<std::string> model;
  reader.read("model", model);
  if (!errors.empty()) return errors.to_api_error();
  if (auto error = check_model_name(model, config)) return error;
  if (config.tokenizer) return std::nullopt;
  return bad_request("This server does not load a tokenizer (--tokens-only or --skip-tokenizer-init).");
}

ReplyOptions derendered_reply_options(std::string id, size_t n, const std::vector<AnsweredPrompt>& prompts,
                                      const ServingConfig& config) {
  ReplyOptions options;
  options.id = std::move(id);
  options.model = config.model_name();
  options.created = unix_seconds();
  options.n = static_cast<int>(n);
  options.prompts.resize(prompts.size());
  options.prompt_tokens = 0;
  for (const AnsweredPrompt& prompt : prompts) *options.prompt_tokens += prompt.num_tokens;
  options.system_fingerprint = config.system_fingerprint;
  return options;
}

ApiResult<ChatRequest> read_chat_request(const JsonValue& body, const ServingConfig& config) {
  const JsonValue request = body["chat_request"];
  return request.is_null() ? ChatRequest() : parse_chat_request(request, config);
}

ApiResult<std::optional<CompletionRequest>> read_completion_request(const JsonValue& body,
                                                                    const ServingConfig& config) {
  const JsonValue request = body["completion_request"];
  if (request.is_null()) return std::optional<CompletionRequest>();
  auto parsed = parse_completion_request(request, config);
  if (!parsed.ok()) return parsed.error();
  return std::optional(std::move(*parsed));
}

ChatReplyOptions derendered_chat_options(const ChatRequest& request, bool has_logprobs, const ServingConfig& config) {
  ChatReplyOptions chat = chat_options(request, request.sampling, config.chat);
  // Without the request all that came with the tokens is shown.
  if (request.conversations.empty() && has_logprobs) chat.logprobs = ChatLogprobs{.top_logprobs = -1};
  if (!has_logprobs) chat.logprobs.reset();
  chat.return_prompt_text = false;
  chat.conversations = {{config.chat.response_role, {}, {}}};
  if (!request.conversations.empty()) {
    chat.parser = output_parser(request, enables_thinking(request.chat, config.chat), config.chat);
  }
  chat.counts_reasoning = chat.counts_reasoning && chat.parser != nullptr;
  return chat;
}

bool skips_special_tokens(const ChatRequest& request, const ChatReplyOptions& chat) {
  const bool keeps = chat.parser != nullptr && chat.parser->keeps_special_tokens();
  return request.sampling.skip_special_tokens && !keeps;
}

}  // namespace unspool
