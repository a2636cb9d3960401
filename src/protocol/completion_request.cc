#include "protocol/completion_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/request_body.h"

namespace unspool {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;

bool is_list_of_ints(const std::vector<JsonValue>& elements) {
  return std::all_of(elements.begin(), elements.end(),
                     [](const JsonValue& v) { return v.is_integer() || v.is_bool(); });
}

// The reference's own validators. The last one declared there runs first; pydantic looks at the fields only after all
// pass.

MaybeError check_prompt_list_length(const JsonValue& body, const ServingConfig& config) {
  for (const char* name : {"prompt", "prompt_embeds"}) {
    const JsonValue list = body[name];
    const auto size = static_cast<int64_t>(list.size());
    if (!list.is_array() || size <= config.max_completion_prompts) continue;
    if (list.as_int64_array() || is_list_of_ints(list.elements())) continue;
    return invalid_parameter(
        fmt::format("{} list length {} exceeds the maximum allowed count of {}. To increase this limit, "
                    "set the VLLM_MAX_COMPLETION_PROMPTS environment variable.",
                    name, size, config.max_completion_prompts),
        name);
  }
  return std::nullopt;
}

MaybeError check_prompt_given(const JsonValue& body) {
  const JsonValue prompt = body["prompt"];
  const JsonValue embeds = body["prompt_embeds"];
  const bool no_prompt = prompt.is_null() || prompt.as_string() == std::string_view();
  const bool no_embeds = embeds.is_null() || (embeds.is_array() && embeds.size() == 0);
  if (!no_prompt || !no_embeds) return std::nullopt;
  return invalid_parameter("Either prompt or prompt_embeds must be provided and non-empty.", "prompt");
}

MaybeError check_logprob_token_ids(const JsonValue& body) {
  if (!truthy(body["logprob_token_ids"])) return std::nullopt;
  const auto refuse = [](const char* message) { return invalid_parameter(message, "logprob_token_ids"); };
  if (truthy(body["use_beam_search"])) return refuse("`logprob_token_ids` is not supported with beam search.");
  const JsonValue max_tokens = body["max_tokens"];
  if (truthy(body["echo"]) && max_tokens.is_number() && max_tokens.as_double() == 0.0) {
    return refuse(
        "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output tokens are "
        "generated.");
  }
  if (body["logprobs"].is_null()) return refuse("when using `logprob_token_ids`, `logprobs` must be set.");
  return std::nullopt;
}

MaybeError check_logprobs(const JsonValue& body) {
  if (auto error = check_logprob_token_ids(body)) return error;
  return check_logprob_counts(body, {"prompt_logprobs", "logprobs"});
}

MaybeError run_validators(const JsonValue& body, const ServingConfig& config) {
  if (auto error = check_prompt_list_length(body, config)) return error;
  if (auto error = check_prompt_given(body)) return error;
  if (auto error = check_stream_options(body)) return error;
  if (auto error = check_logprobs(body)) return error;
  if (auto error = check_structured_outputs_count(body)) return error;
  if (auto error = check_response_format(body)) return error;
  if (auto error = check_cache_salt(body["cache_salt"])) return error;
  return check_thinking_token_budget(body);
}

// A prompt may be a text, ids, or a list of either. Pydantic tries the four forms and, where none fits, reports what
// every one of them lacks.
void read_prompt(FieldReader& reader, CompletionRequest& out) {
  const auto value = reader.find("prompt");
  if (!value || value->is_null()) return;
  const std::string loc = reader.loc("prompt");
  constexpr IntRange kTokenIds{.ge = 0};
  if (const auto text = value->as_string()) {
    out.prompts.emplace_back(std::string(*text));
    return;
  }
  const auto elements = value->is_array() && !value->as_int64_array() ? value->elements() : std::vector<JsonValue>();
  const auto all = [&](auto is) { return !elements.empty() && std::all_of(elements.begin(), elements.end(), is); };
  if (all([](const JsonValue& v) { return v.is_string(); })) {
    for (const JsonValue& element : elements) out.prompts.emplace_back(std::string(*element.as_string()));
    return;
  }
  FieldErrors failures;
  if (auto ids = coerce_int_list(*value, loc, failures, kTokenIds)) {
    // An empty list is a list of no prompts.
    if (!ids->empty()) out.prompts.emplace_back(std::move(*ids));
    return;
  }
  FieldErrors list_failures;
  std::vector<TextOrIds> lists;
  if (value->is_array()) {
    size_t index = 0;
    for (const JsonValue& element : value->elements()) {
      auto ids = coerce_int_list(element, fmt::format("{}.{}", loc, index++), list_failures, kTokenIds);
      if (ids) lists.emplace_back(std::move(*ids));
    }
  } else {
    list_failures.add({"list_type", loc, "Input should be a valid list", describe_input(*value), {}});
  }
  if (list_failures.empty()) {
    out.prompts = std::move(lists);
    return;
  }
  reader.errors().append(failures);
  reader.errors().append(list_failures);
  coerce_string(*value, loc, reader.errors());
  coerce_string_list(*value, loc, reader.errors());
}

// In the order of the reference's model, which is the order of its errors.
void read_fields(FieldReader& reader, CompletionRequest& out, const ServingConfig& config) {
  SamplingFields& sampling = out.sampling;
  reader.read("model", out.model);
  read_prompt(reader, out);
  out.echo = read_flag(reader, "echo");
  reader.read("frequency_penalty", sampling.frequency_penalty);
  reader.read("logprobs", sampling.logprobs);
  sampling.max_tokens = kDefaultMaxTokens;
  reader.read("max_tokens", sampling.max_tokens);
  if (!sampling.max_tokens) sampling.max_tokens = kDefaultMaxTokens;
  reader.read("presence_penalty", sampling.presence_penalty);
  read_stop(reader, sampling, config);
  out.stream = read_flag(reader, "stream");
  out.stream_options = read_stream_options(reader);
  reader.read("suffix", out.suffix);
  reader.read("temperature", sampling.temperature);
  reader.read("top_p", sampling.top_p);
  reader.read("top_k", sampling.top_k);
  reader.read("min_p", sampling.min_p);
  reader.read("repetition_penalty", sampling.repetition_penalty);
  reader.read("n", sampling.n);
  read_common_sampling_fields(reader, sampling);
  read_closing_fields(reader, out);
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return *error;
  if (auto error = run_validators(body, config)) return *error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  CompletionRequest request;
  read_fields(reader, request, config);
  if (request.sampling.structured_outputs.error) return *request.sampling.structured_outputs.error;
  if (!errors.empty()) return errors.to_api_error();
  if (request.sampling.repetition_detection_error) return *request.sampling.repetition_detection_error;
  if (auto error = check_unsupported(body)) return *error;
  return request;
}

}  // namespace unspool
