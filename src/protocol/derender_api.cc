#include "protocol/derender_api.h"

#include <fmt/format.h>

#include "protocol/completion_reply.h"
#include "protocol/derender_request.h"
#include "protocol/derender_stream.h"
#include "protocol/prepare_steps.h"
#include "protocol/token_response.h"

namespace unspool {
namespace {

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
  ChatReplyOptions chat = derendered_chat_options(request, response.has_logprobs, config);
  const bool skip_special_tokens = skips_special_tokens(request, chat);
  for (SequenceDelta& choice : response.choices) {
    fill_in_text(choice, prompt, skip_special_tokens, request.sampling.include_stop_str_in_output, config);
  }
  ChatReply reply(derendered_reply_options(response.request_id, response.choices.size(), {prompt}, config),
                  std::move(chat), token_text(request, config));
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
  if (auto error = check_derender_body(body, config)) return *error;
  if (truthy(body["stream"])) return derender_chat_chunk(body, config);
  auto asked = read_chat_request(body, config);
  if (!asked.ok()) return asked.error();
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
  return chat_body(std::move(*response), prompt, *asked, config);
}

ApiResult<std::string> derender_completion(const JsonValue& body, const ServingConfig& config) {
  if (auto error = check_derender_body(body, config)) return *error;
  if (truthy(body["stream"])) return derender_completion_chunk(body, config);
  auto asked = read_completion_request(body, config);
  if (!asked.ok()) return asked.error();
  const CompletionRequest request = asked->value_or(CompletionRequest());
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
  if (has_logprobs) options.logprobs = *asked ? static_cast<int>(request.sampling.logprobs.value_or(0)) : -1;
  CompletionReply reply(derendered_reply_options(read->responses.front().request_id,
                                                 read->responses.front().choices.size(), read->prompts, config),
                        std::move(options), token_text(request, config));
  return put_together(reply, std::move(read->responses));
}

}  // namespace unspool
