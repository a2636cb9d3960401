#include "protocol/prepare_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/prompt_tokens.h"

namespace unspool {
namespace {

// More than any trainer asks for in one request; each costs memory before the engine sees it.
constexpr int64_t kMaxChoices = 1 << 17;

PromptFacts facts(const std::vector<int64_t>& ids) {
  return {static_cast<int64_t>(ids.size()), ids.empty() ? -1 : *std::max_element(ids.begin(), ids.end())};
}

MaybeError check_rank(const RequestHeaders& headers) {
  if (!headers.data_parallel_rank || *headers.data_parallel_rank == 0) return std::nullopt;
  return bad_request(fmt::format("data_parallel_rank {} is out of range [0, 1).", *headers.data_parallel_rank));
}

}  // namespace

std::string base_id(const RequestHeaders& headers, const std::string& body_id) {
  if (headers.request_id) return *headers.request_id;
  return body_id.empty() ? random_hex(16) : body_id;
}

void apply_defaults(SamplingFields& fields, const DefaultSampling& defaults) {
  for_each_default(fields, defaults, [](auto& value, const auto& fallback) {
    if (!value) value = fallback;
  });
}

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

void clamp_logit_bias(SamplingFields& fields) {
  for (auto& [id, bias] : fields.logit_bias) bias = std::isfinite(bias) ? std::clamp(bias, -100.0, 100.0) : bias;
}

MaybeError check_choice_count(size_t prompts, int64_t n) {
  if (n < 1 || static_cast<int64_t>(prompts) <= kMaxChoices / n) return std::nullopt;
  return invalid_parameter(fmt::format("{} prompts with n={} make more than {} choices.", prompts, n, kMaxChoices),
                           "n");
}

ReplyOptions openai_reply_options(const PreparedRequest& prepared, std::string id, const OpenAiRequest& request,
                                  const SamplingFields& fields, const ServingConfig& config) {
  StreamOptions stream = request.stream_options;
  if (config.enable_force_include_usage) stream = {.include_usage = true, .continuous_usage_stats = true};
  ReplyOptions options = reply_options(prepared, std::move(id), fields.n, stream, fields, config);
  options.request_metrics = config.enable_per_request_metrics;
  return options;
}

TokenText token_text(const OpenAiRequest& request, const ServingConfig& config) {
  return {config.tokenizer, request.return_tokens_as_token_ids.value_or(config.return_tokens_as_token_ids)};
}

}  // namespace unspool
