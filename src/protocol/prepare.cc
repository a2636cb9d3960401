// Parsed requests to engine requests: model name, prompts, defaults, limits.
#include <fmt/format.h>

#include <algorithm>

#include "protocol/completion_reply.h"
#include "protocol/generate_reply.h"
#include "protocol/prepare_steps.h"
#include "protocol/prompt_tokens.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

MaybeError check_suffix(const CompletionRequest& request) {
  if (!request.suffix) return std::nullopt;
  if (request.echo) return bad_request_for("Echo is unsupported with suffix.", "suffix");
  if (request.truncate_prompt_tokens) {
    return bad_request_for("suffix is not supported with truncate_prompt_tokens", "suffix");
  }
  const auto is_text = [](const TextOrIds& prompt) { return std::holds_alternative<std::string>(prompt); };
  if (!std::all_of(request.prompts.begin(), request.prompts.end(), is_text)) {
    return bad_request_for("suffix requires text prompt input for FIM completion rendering", "suffix");
  }
  return bad_request_for("suffix is only supported for models with FIM completion rendering", "suffix");
}

// Completions: what is left of the context bounds it silently, and one token is drawn where none was asked for.
int64_t completion_max_tokens(const CompletionRequest& request, int64_t prompt_length, const ServingConfig& config) {
  int64_t max_tokens = std::min(*request.sampling.max_tokens, config.max_model_len - prompt_length);
  if (config.defaults.hard_max_tokens) max_tokens = std::min(max_tokens, *config.defaults.hard_max_tokens);
  return request.scores_only() ? 1 : max_tokens;
}

struct TokenizedPrompts {
  std::vector<PromptTokens> prompts;
};

ApiResult<TokenizedPrompts> tokenize_prompts(const CompletionRequest& request, const ServingConfig& config) {
  TokenizedPrompts out;
  for (const TextOrIds& prompt : request.prompts) {
    auto tokens = tokenize_prompt(prompt, request, config);
    if (!tokens.ok()) return tokens.error();
    out.prompts.push_back(std::move(*tokens));
  }
  return out;
}

CompletionReplyOptions completion_options(const CompletionRequest& request, std::vector<PromptTokens>& prompts) {
  CompletionReplyOptions options;
  const SamplingFields& fields = request.sampling;
  if (fields.logprobs) options.logprobs = static_cast<int>(*fields.logprobs);
  options.all_candidates = fields.logprob_token_ids && !fields.logprob_token_ids->empty();
  options.kept_mass = fields.return_kept_mass.value_or(false);
  options.echo = request.echo;
  options.scores_only = request.scores_only();
  options.return_token_ids = request.return_token_ids;
  if (request.echo) {
    for (PromptTokens& prompt : prompts) options.prompt_texts.push_back(std::move(prompt.text));
  }
  return options;
}

}  // namespace

ApiResult<PreparedRequest> prepare_completion(const CompletionRequest& request, const RequestHeaders& headers,
                                              const ServingConfig& config) {
  if (auto error = check_model_name(request.model, config)) return *error;
  if (auto error = check_suffix(request)) return *error;
  if (request.prompts.empty()) return bad_request("You must pass at least one prompt");
  if (auto error = check_token_limits(request, config)) return *error;
  if (auto error = check_choice_count(request.prompts.size(), request.sampling.n)) return *error;
  auto tokenized = tokenize_prompts(request, config);
  if (!tokenized.ok()) return tokenized.error();

  SamplingFields fields = request.sampling;
  apply_defaults(fields, config.defaults);
  if (request.echo && !fields.prompt_logprobs) fields.prompt_logprobs = fields.logprobs;
  clamp_logit_bias(fields);
  PreparedRequest out;
  out.stream = request.stream;
  out.cache_salt = request.cache_salt;
  out.priority = headers.priority.value_or(request.priority);
  const std::string id = "cmpl-" + base_id(headers, request.request_id);
  for (const PromptTokens& prompt : tokenized->prompts) {
    fields.max_tokens = completion_max_tokens(request, static_cast<int64_t>(prompt.ids.size()), config);
    if (auto error = check_sampling_ranges(fields, config)) return *error;
    add_prompt(out, fmt::format("{}-{}", id, out.prompts.size()), prompt.ids, fields, headers, config);
  }
  if (out.lazy_error) return out;
  out.sampling = fields;

  ReplyOptions options = openai_reply_options(out, id, request, fields, config);
  TokenText text = token_text(request, config);
  out.assembler = std::make_unique<CompletionReply>(std::move(options), completion_options(request, tokenized->prompts),
                                                    std::move(text));
  return out;
}

namespace {

MaybeError check_generate_server(const GenerateRequest& request, const ServingConfig& config) {
  if (request.sampling.n > config.max_num_seqs) {
    return bad_request(fmt::format("sampling_params.n must be at most the server's max_num_seqs ({}), got {}.",
                                   config.max_num_seqs, request.sampling.n));
  }
  if (config.tokens_only && !request.sampling.stop.empty()) {
    return bad_request(
        "stop strings are not supported on a --tokens-only server because detokenization is disabled. Check stop "
        "strings on "
        "the coordinator, or use stop_token_ids.");
  }
  if (!request.sampling.stop.empty() && !config.tokenizer) {
    return bad_request("stop strings need a tokenizer, which this server does not load (--skip-tokenizer-init).");
  }
  if (request.output_mode == OutputMode::kText && !config.tokenizer) {
    return bad_request(
        "output_mode='text' requires a tokenizer, but this server does not load one (--tokens-only or "
        "--skip-tokenizer-init). Send the request to a server that loads a tokenizer, or use output_mode='tokens'.");
  }
  return std::nullopt;
}

// An explicit number stands as it is (generation ends with the context); null means the rest of the context, and so
// does absence, within the server's defaults.
MaybeError set_generate_max_tokens(const GenerateRequest& request, SamplingFields& fields,
                                   const ServingConfig& config) {
  const auto length = static_cast<int64_t>(request.token_ids.size());
  const int64_t rest = config.max_model_len - length;
  if (fields.max_tokens) return std::nullopt;
  if (request.max_tokens_given) {
    fields.max_tokens = std::max<int64_t>(rest, 0);
    if (rest <= 0 || fields.min_tokens <= rest) return std::nullopt;
    return bad_request(
        fmt::format("min_tokens must be less than or equal to max_tokens={}, got {}.", rest, fields.min_tokens));
  }
  if (rest < 0) {
    return bad_request(
        fmt::format("Input length ({}) exceeds model's maximum context length ({}).", length, config.max_model_len));
  }
  int64_t max_tokens = rest;
  for (const auto& limit : {config.defaults.max_tokens, config.defaults.hard_max_tokens}) {
    if (limit) max_tokens = std::min(max_tokens, *limit);
  }
  fields.max_tokens = max_tokens;
  return std::nullopt;
}

}  // namespace

ApiResult<PreparedRequest> prepare_generate(const GenerateRequest& request, const RequestHeaders& headers,
                                            const ServingConfig& config) {
  if (auto error = check_model_name(request.model, config)) return *error;
  if (auto error = check_generate_server(request, config)) return *error;
  SamplingFields fields = request.sampling;
  if (auto error = set_generate_max_tokens(request, fields, config)) return *error;
  const bool text_mode = request.output_mode == OutputMode::kText;
  // Ids are all the reply holds: no text is made unless a stop string needs it.
  fields.detokenize = fields.detokenize && (text_mode || !fields.stop.empty());

  PreparedRequest out;
  out.stream = request.stream;
  out.cache_salt = request.cache_salt;
  out.priority = request.priority;
  const std::string id = "generate-tokens-" + base_id(headers, request.request_id);
  add_prompt(out, id, request.token_ids, fields, headers, config);
  if (out.lazy_error) return out;

  GenerateReplyOptions generate;
  generate.mode = request.output_mode;
  if (fields.logprobs) generate.logprobs = static_cast<int>(*fields.logprobs);
  generate.all_candidates = fields.logprob_token_ids && !fields.logprob_token_ids->empty();
  generate.return_token_ids = request.return_token_ids;
  TokenText text(config.tokenizer, !text_mode || config.return_tokens_as_token_ids);
  out.assembler = std::make_unique<GenerateReply>(
      reply_options(out, id, fields.n, request.stream_options, fields, config), generate, std::move(text));
  return out;
}

}  // namespace unspool
