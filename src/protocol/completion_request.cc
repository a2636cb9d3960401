#include "protocol/completion_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/python_text.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;
constexpr int64_t kMaxCacheSaltCharacters = 128;

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

MaybeError check_stream_options(const JsonValue& body) {
  if (!truthy(body["stream_options"]) || truthy(body["stream"])) return std::nullopt;
  return invalid_parameter("Stream options can only be defined when `stream=True`.", "stream_options");
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
  for (const char* name : {"prompt_logprobs", "logprobs"}) {
    const JsonValue value = body[name];
    if (value.is_null() || value.is_number() || value.is_bool()) continue;
    return invalid_parameter(fmt::format("`{}` must be an integer.", name), name, describe_input(value));
  }
  const auto count = [&](const char* name) -> std::optional<double> {
    const JsonValue value = body[name];
    if (value.is_bool()) return *value.as_bool() ? 1.0 : 0.0;
    return value.as_double();
  };
  const auto prompt_logprobs = count("prompt_logprobs");
  if (prompt_logprobs && truthy(body["stream"]) && (*prompt_logprobs > 0 || *prompt_logprobs == -1)) {
    return invalid_parameter("`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs");
  }
  for (const char* name : {"prompt_logprobs", "logprobs"}) {
    const auto value = count(name);
    if (!value || *value >= 0 || *value == -1) continue;
    return invalid_parameter(fmt::format("`{}` must be a positive value or -1.", name), name,
                             describe_input(body[name]));
  }
  return std::nullopt;
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

void read_stop(FieldReader& reader, CompletionRequest& out, const ServingConfig& config) {
  const auto value = reader.find("stop");
  if (!value || value->is_null()) return;
  if (const auto text = value->as_string()) {
    out.sampling.stop = {std::string(*text)};
    return;
  }
  const std::string loc = reader.loc("stop");
  FieldErrors failures;
  coerce_string(*value, loc, failures);
  const auto size = static_cast<int64_t>(value->size());
  if (value->is_array() && size > config.max_stop_strings) {
    failures.add({"too_long", loc,
                  fmt::format("List should have at most {} item{} after validation, not {}", config.max_stop_strings,
                              config.max_stop_strings == 1 ? "" : "s", size),
                  describe_input(*value),
                  fmt::format("{{'field_type': 'List', 'max_length': {}, 'actual_length': {}}}",
                              config.max_stop_strings, size)});
  } else if (auto list = coerce_string_list(*value, loc, failures)) {
    out.sampling.stop = std::move(*list);
    return;
  }
  reader.errors().append(failures);
}

void read_truncation_side(FieldReader& reader, CompletionRequest& out) {
  const auto value = reader.find("truncation_side");
  if (!value || value->is_null()) return;
  const auto side = value->as_string();
  if (side && (*side == "left" || *side == "right")) {
    out.truncation_side = std::string(*side);
    return;
  }
  reader.errors().add({"literal_error", reader.loc("truncation_side"), "Input should be 'left' or 'right'",
                       describe_input(*value), R"({'expected': "'left' or 'right'"})"});
}

bool read_flag(FieldReader& reader, const char* name) {
  std::optional<bool> flag;
  reader.read(name, flag);
  return flag.value_or(false);
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
  read_stop(reader, out, config);
  out.stream = read_flag(reader, "stream");
  out.stream_options = read_stream_options(reader);
  reader.read("suffix", out.suffix);
  reader.read("temperature", sampling.temperature);
  reader.read("top_p", sampling.top_p);
  reader.read("top_k", sampling.top_k);
  reader.read("min_p", sampling.min_p);
  reader.read("repetition_penalty", sampling.repetition_penalty);
  read_common_sampling_fields(reader, sampling);
  reader.read("truncate_prompt_tokens", out.truncate_prompt_tokens, {.ge = -1});
  read_truncation_side(reader, out);
  reader.read("prompt_logprobs", sampling.prompt_logprobs);
  reader.read("bad_words", sampling.bad_words);
  reader.read("add_special_tokens", out.add_special_tokens);
  read_structured_outputs(reader, sampling.structured_outputs, ResponseFormats::kRead);
  reader.read("priority", out.priority);
  reader.read("request_id", out.request_id);
  std::optional<std::string> session_id;
  reader.read("session_id", session_id);
  reader.read("return_tokens_as_token_ids", out.return_tokens_as_token_ids);
  out.return_token_ids = read_flag(reader, "return_token_ids");
  reader.read("routed_experts_prompt_start", sampling.routed_experts_prompt_start, {.ge = 0});
  if (const auto salt = reader.object()["cache_salt"].as_string()) out.cache_salt = *salt;
  reader.read("stream_interval", sampling.stream_interval, {.ge = 1});
}

}  // namespace

MaybeError check_cache_salt(const JsonValue& salt) {
  if (salt.is_null()) return std::nullopt;
  const auto text = salt.as_string();
  if (!text || text->empty()) {
    return invalid_parameter("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt");
  }
  constexpr std::string_view kForbidden("@/\\\0", 4);
  if (python::length(*text) > kMaxCacheSaltCharacters || text->find_first_of(kForbidden) != std::string_view::npos) {
    return invalid_parameter(
        "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL.",
        "cache_salt");
  }
  return std::nullopt;
}

StreamOptions read_stream_options(FieldReader& reader) {
  StreamOptions options;
  const auto value = reader.find("stream_options");
  if (!value || value->is_null()) return options;
  if (!value->is_object()) {
    reader.errors().add({"model_attributes_type",
                         reader.loc("stream_options"),
                         "Input should be a valid dictionary or object to extract fields from",
                         describe_input(*value),
                         {}});
    return options;
  }
  FieldReader inner(*value, reader.loc("stream_options"), reader.errors());
  options.include_usage = read_flag(inner, "include_usage");
  options.continuous_usage_stats = read_flag(inner, "continuous_usage_stats");
  return options;
}

MaybeError check_unsupported(const JsonValue& object) {
  const auto refuse = [](const char* what, const char* name) {
    return invalid_parameter(fmt::format("{} not supported by this server.", what), name);
  };
  if (truthy(object["use_beam_search"])) return refuse("Beam search is", "use_beam_search");
  if (truthy(object["watermarking"])) return refuse("Watermarking is", "watermarking");
  if (truthy(object["prompt_embeds"])) return refuse("Prompt embeddings are", "prompt_embeds");
  if (!object["kv_transfer_params"].is_null()) return refuse("KV transfer is", "kv_transfer_params");
  if (!object["ec_transfer_params"].is_null()) return refuse("Encoder cache transfer is", "ec_transfer_params");
  return std::nullopt;
}

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
