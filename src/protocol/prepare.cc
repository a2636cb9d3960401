// Parsed requests to engine requests: model name, prompts, defaults, limits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/completion_reply.h"
#include "protocol/generate_reply.h"
#include "protocol/prepared_request.h"
#include "protocol/prompt_tokens.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

// More than any trainer asks for in one request; each costs memory before the engine sees it.
constexpr int64_t kMaxChoices = 1 << 17;

// Where neither header nor body names the request.
std::string base_id(const RequestHeaders& headers, const std::string& body_id) {
  if (headers.request_id) return *headers.request_id;
  return body_id.empty() ? random_hex(16) : body_id;
}

template <class T>
void fall_back(std::optional<T>& value, const std::optional<T>& fallback) {
  if (!value) value = fallback;
}

void apply_defaults(SamplingFields& fields, const DefaultSampling& defaults) {
  fall_back(fields.temperature, defaults.temperature);
  fall_back(fields.top_p, defaults.top_p);
  fall_back(fields.top_k, defaults.top_k);
  fall_back(fields.min_p, defaults.min_p);
  fall_back(fields.presence_penalty, defaults.presence_penalty);
  fall_back(fields.frequency_penalty, defaults.frequency_penalty);
  fall_back(fields.repetition_penalty, defaults.repetition_penalty);
}

PromptFacts facts(const std::vector<int64_t>& ids) {
  return {static_cast<int64_t>(ids.size()), ids.empty() ? -1 : *std::max_element(ids.begin(), ids.end())};
}

MaybeError check_rank(const RequestHeaders& headers) {
  if (!headers.data_parallel_rank || *headers.data_parallel_rank == 0) return std::nullopt;
  return bad_request(fmt::format("data_parallel_rank {} is out of range [0, 1).", *headers.data_parallel_rank));
}

// Adds one prompt, or notes why its engine would refuse it; the first reason stays.
void add_prompt(PreparedRequest& out, std::string external_id, const std::vector<int64_t>& ids,
                const SamplingFields& fields, const RequestHeaders& headers, const ServingConfig& config) {
  if (out.lazy_error) return;
  if ((out.lazy_error = check_against_model(fields, facts(ids), config))) return;
  if ((out.lazy_error = check_rank(headers))) return;
  auto params = to_sampling_params(fields, config);
  if (!params.ok()) {
    out.lazy_error = params.error();
    return;
  }
  out.prompts.push_back({std::move(external_id), to_token_ids(ids), std::move(*params)});
}

ReplyOptions reply_options(const PreparedRequest& prepared, std::string id, int64_t n, const StreamOptions& stream,
                           const SamplingFields& fields, const ServingConfig& config) {
  ReplyOptions options;
  options.id = std::move(id);
  options.model = config.model_name();
  options.created = unix_seconds();
  options.arrival_s = monotonic_seconds();
  options.n = static_cast<int>(n);
  for (const PreparedPrompt& prompt : prepared.prompts) options.prompts.push_back(prompt.token_ids);
  options.stream = prepared.stream;
  const int64_t interval = std::max<int64_t>(fields.stream_interval.value_or(1), config.stream_interval);
  options.stream_interval = static_cast<int>(std::min<int64_t>(interval, config.max_model_len));
  options.include_usage = stream.include_usage;
  options.continuous_usage = stream.include_usage && stream.continuous_usage_stats;
  options.prompt_tokens_details = config.enable_prompt_tokens_details;
  options.system_fingerprint = config.system_fingerprint;
  return options;
}

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

MaybeError check_choice_count(size_t prompts, int64_t n) {
  if (n < 1 || static_cast<int64_t>(prompts) <= kMaxChoices / n) return std::nullopt;
  return invalid_parameter(fmt::format("{} prompts with n={} make more than {} choices.", prompts, n, kMaxChoices),
                           "n");
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
  // As the OpenAI interface has it; the token route takes any number.
  for (auto& [id, bias] : fields.logit_bias) bias = std::isfinite(bias) ? std::clamp(bias, -100.0, 100.0) : bias;
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

  StreamOptions stream = request.stream_options;
  if (config.enable_force_include_usage) stream = {.include_usage = true, .continuous_usage_stats = true};
  ReplyOptions options = reply_options(out, id, fields.n, stream, fields, config);
  options.request_metrics = config.enable_per_request_metrics;
  TokenText text(config.tokenizer, request.return_tokens_as_token_ids.value_or(config.return_tokens_as_token_ids));
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
