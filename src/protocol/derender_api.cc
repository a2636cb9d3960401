#include "protocol/derender_api.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "protocol/chat_prompt.h"
#include "protocol/chat_reply_setup.h"
#include "protocol/completion_reply.h"
#include "protocol/prepare_steps.h"
#include "protocol/request_body.h"
#include "protocol/token_response.h"

namespace unspool {
namespace {

// What both routes refuse before they read their own fields.
MaybeError check_body(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return error;
  if (truthy(body["stream"])) {
    return invalid_parameter("Streams are not derendered: send their chunks put together as one response.", "stream");
  }
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  std::optional<std::string> model;
  reader.read("model", model);
  if (!errors.empty()) return errors.to_api_error();
  if (auto error = check_model_name(model, config)) return error;
  if (config.tokenizer) return std::nullopt;
  return bad_request("This server does not load a tokenizer (--tokens-only or --skip-tokenizer-init).");
}

ReplyOptions reply_options(std::string id, size_t n, const std::vector<AnsweredPrompt>& prompts,
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

// The reply to outputs that have all come.
ApiResult<std::string> put_together(ReplyAssembler& reply, std::vector<TokenResponse> responses) {
  for (size_t i = 0; i < responses.size(); ++i) {
    RequestOutput output;
    output.deltas = std::move(responses[i].choices);
    output.finished = true;
    reply.add(static_cast<int>(i), std::move(output), 0.0);
  }
  std::string body = reply.finish();
  if (reply.error()) return *reply.error();
  return body;
}

ApiResult<std::string> chat_body(TokenResponse response, const AnsweredPrompt& prompt, const ChatRequest& request,
                                 const ServingConfig& config) {
  ChatReplyOptions chat = chat_options(request, request.sampling, config.chat);
  // Without the request all that came with the tokens is shown.
  if (request.conversations.empty() && response.has_logprobs) chat.logprobs = ChatLogprobs{.top_logprobs = -1};
  if (!response.has_logprobs) chat.logprobs.reset();
  chat.return_prompt_text = false;
  chat.conversations = {{config.chat.response_role, {}, {}}};
  bool skip_special_tokens = request.sampling.skip_special_tokens;
  if (!request.conversations.empty()) {
    chat.parser = output_parser(request, enables_thinking(request.chat, config.chat), config.chat);
  }
  if (chat.parser != nullptr && chat.parser->keeps_special_tokens()) skip_special_tokens = false;
  chat.counts_reasoning = chat.counts_reasoning && chat.parser != nullptr;
  for (SequenceDelta& choice : response.choices) {
    fill_in_text(choice, prompt, skip_special_tokens, request.sampling.include_stop_str_in_output, config);
  }
  ChatReply reply(reply_options(response.request_id, response.choices.size(), {prompt}, config), std::move(chat),
                  token_text(request, config));
  std::vector<TokenResponse> responses;
  responses.push_back(std::move(response));
  return put_together(reply, std::move(responses));
}

struct Responses {
  std::vector<TokenResponse> responses;
  std::vector<AnsweredPrompt> prompts;
};

ApiResult<Responses> read_responses(const JsonValue& body, const ServingConfig& config) {
  const JsonValue list = body["generate_responses"];
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  if (!body.find("generate_responses")) reader.missing("generate_responses");
  if (static_cast<int64_t>(list.size()) > config.max_n) {
    return bad_request(
        fmt::format("generate_responses count ({}) exceeds server maximum ({}). Set "
                    "VLLM_MAX_N_SEQUENCES to increase this limit.",
                    list.size(), config.max_n));
  }
  for (const char* name : {"prompt_tokens", "prompt_token_ids"}) {
    const JsonValue values = body[name];
    if (values.is_null() || (values.is_array() && values.size() == list.size())) continue;
    return bad_request_for(
        fmt::format("{} length ({}) must equal generate_responses length ({})", name, values.size(), list.size()),
        name);
  }
  const std::vector<JsonValue> counts = body["prompt_tokens"].elements();
  const std::vector<JsonValue> ids = body["prompt_token_ids"].elements();
  Responses out;
  for (const JsonValue& json : list.elements()) {
    const size_t i = out.responses.size();
    const std::string loc = fmt::format("body.generate_responses.{}", i);
    auto response = read_token_response(json, loc, errors, config);
    if (!response.ok()) return response.error();
    out.responses.push_back(std::move(*response));
    out.prompts.push_back(read_answered_prompt(counts.empty() ? JsonValue() : counts[i],
                                               ids.empty() ? JsonValue() : ids[i], json, "body.", errors, config));
  }
  if (!errors.empty()) return errors.to_api_error();
  if (out.responses.empty()) return bad_request_for("generate_responses must not be empty", "generate_responses");
  for (const TokenResponse& response : out.responses) {
    if (!response.choices.empty() && response.choices.size() == out.responses.front().choices.size()) continue;
    return bad_request_for("Every response must have the same number of choices", "generate_responses");
  }
  return out;
}

}  // namespace

ApiResult<std::string> derender_chat(const JsonValue& body, const ServingConfig& config) {
  if (auto error = check_body(body, config)) return *error;
  ChatRequest request;
  if (const JsonValue chat_request = body["chat_request"]; !chat_request.is_null()) {
    auto parsed = parse_chat_request(chat_request, config);
    if (!parsed.ok()) return parsed.error();
    request = std::move(*parsed);
  }
  FieldErrors errors;
  const JsonValue json = body["generate_response"];
  FieldReader reader(body, "body", errors);
  if (!body.find("generate_response")) {
    reader.missing("generate_response");
    return errors.to_api_error();
  }
  auto response = read_token_response(json, reader.loc("generate_response"), errors, config);
  if (!response.ok()) return response.error();
  const AnsweredPrompt prompt =
      read_answered_prompt(body["prompt_tokens"], body["prompt_token_ids"], json, "body.", errors, config);
  if (!errors.empty()) return errors.to_api_error();
  if (response->choices.empty()) return bad_request_for("generate_response has no choices", "generate_response");
  return chat_body(std::move(*response), prompt, request, config);
}

ApiResult<std::string> derender_completion(const JsonValue& body, const ServingConfig& config) {
  if (auto error = check_body(body, config)) return *error;
  CompletionRequest request;
  bool has_request = false;
  if (const JsonValue completion_request = body["completion_request"]; !completion_request.is_null()) {
    auto parsed = parse_completion_request(completion_request, config);
    if (!parsed.ok()) return parsed.error();
    request = std::move(*parsed);
    has_request = true;
  }
  auto read = read_responses(body, config);
  if (!read.ok()) return read.error();
  CompletionReplyOptions options;
  options.return_token_ids = request.return_token_ids;
  bool has_logprobs = false;
  for (size_t i = 0; i < read->responses.size(); ++i) {
    has_logprobs = has_logprobs || read->responses[i].has_logprobs;
    for (SequenceDelta& choice : read->responses[i].choices) {
      fill_in_text(choice, read->prompts[i], request.sampling.skip_special_tokens,
                   request.sampling.include_stop_str_in_output, config);
    }
  }
  if (has_logprobs) options.logprobs = has_request ? static_cast<int>(request.sampling.logprobs.value_or(0)) : -1;
  CompletionReply reply(
      reply_options(read->responses.front().request_id, read->responses.front().choices.size(), read->prompts, config),
      std::move(options), token_text(request, config));
  return put_together(reply, std::move(read->responses));
}

}  // namespace unspool
