#include "protocol/generate_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/python_text.h"
#include "protocol/request_body.h"

namespace unspool {
namespace {

// A ValueError that the reference raises while pydantic validates.
void add_value_error(FieldErrors& errors, std::string loc, const JsonValue& input, std::string_view message) {
  errors.add({"value_error", std::move(loc), fmt::format("Value error, {}", message), describe_input(input),
              fmt::format("{{'error': ValueError({})}}", python::repr(message))});
}

void read_token_ids(FieldReader& reader, GenerateRequest& out) {
  const auto value = reader.find("token_ids");
  if (!value) return reader.missing("token_ids");
  auto ids = coerce_int_list(*value, reader.loc("token_ids"), reader.errors());
  if (!ids) return;
  if (ids->empty()) {
    reader.errors().add({"too_short", reader.loc("token_ids"),
                         "List should have at least 1 item after validation, not 0", describe_input(*value),
                         "{'field_type': 'List', 'min_length': 1, 'actual_length': 0}"});
  } else if (std::any_of(ids->begin(), ids->end(), [](int64_t id) { return id < 0; })) {
    add_value_error(reader.errors(), reader.loc("token_ids"), *value, "token_ids must not contain negative values");
  }
  out.token_ids = std::move(*ids);
}

// A field of the reference's SamplingParams that has a default and takes no null.
void read_plain(FieldReader& reader, const char* name, std::optional<double>& out) {
  double value = 0;
  if (!reader.find(name)) return;
  reader.read(name, value);
  out = value;
}

void read_stop(FieldReader& reader, SamplingFields& out) {
  const auto value = reader.find("stop");
  if (!value || value->is_null()) return;
  if (const auto text = value->as_string()) {
    out.stop = {std::string(*text)};
    return;
  }
  FieldErrors failures;
  coerce_string(*value, reader.loc("stop"), failures);
  if (auto list = coerce_string_list(*value, reader.loc("stop"), failures)) {
    out.stop = std::move(*list);
  } else {
    reader.errors().append(failures);
  }
}

void read_sampling_fields(FieldReader& reader, SamplingFields& out) {
  read_plain(reader, "presence_penalty", out.presence_penalty);
  read_plain(reader, "frequency_penalty", out.frequency_penalty);
  read_plain(reader, "repetition_penalty", out.repetition_penalty);
  read_plain(reader, "temperature", out.temperature);
  read_plain(reader, "top_p", out.top_p);
  int64_t top_k = 0;
  reader.read("top_k", top_k);
  out.top_k = top_k;
  read_plain(reader, "min_p", out.min_p);
  read_stop(reader, out);
  reader.read("max_tokens", out.max_tokens);
  reader.read("logprobs", out.logprobs);
  reader.read("prompt_logprobs", out.prompt_logprobs);
  reader.read("detokenize", out.detokenize);
  reader.read("stream_interval", out.stream_interval);
  std::optional<std::vector<std::string>> bad_words;
  reader.read("bad_words", bad_words);
  if (bad_words) out.bad_words = std::move(*bad_words);
  reader.read("skip_reading_prefix_cache", out.skip_reading_prefix_cache);
  reader.read("routed_experts_prompt_start", out.routed_experts_prompt_start);
  reader.read("n", out.n);
  read_common_sampling_fields(reader, out);
  read_structured_outputs(reader, out.structured_outputs, ResponseFormats::kNoSuchField);
}

void read_sampling_params(FieldReader& reader, GenerateRequest& out) {
  const auto value = reader.find("sampling_params");
  if (!value) return reader.missing("sampling_params");
  // Pydantic tries an instance of the class first, so that failure leads whatever else is wrong.
  FieldErrors failures;
  const std::string loc = reader.loc("sampling_params");
  failures.add({"is_instance_of", loc, "Input should be an instance of SamplingParams", describe_input(*value),
                "{'class': 'SamplingParams'}"});
  FieldErrors inner_failures;
  if (value->is_object()) {
    FieldReader inner(*value, loc, inner_failures);
    read_sampling_fields(inner, out.sampling);
    out.max_tokens_given = value->find("max_tokens").has_value();
  } else {
    inner_failures.add({"dict_type", loc, "Input should be a valid dictionary", describe_input(*value), {}});
  }
  if (inner_failures.empty()) return;
  failures.append(inner_failures);
  reader.errors().append(failures);
}

void read_output_mode(FieldReader& reader, GenerateRequest& out) {
  const auto value = reader.find("output_mode");
  if (!value) return;
  const auto mode = value->as_string();
  if (mode == std::string_view("text")) {
    out.output_mode = OutputMode::kText;
  } else if (mode != std::string_view("tokens")) {
    reader.errors().add({"literal_error", reader.loc("output_mode"), "Input should be 'tokens' or 'text'",
                         describe_input(*value), R"({'expected': "'tokens' or 'text'"})"});
  }
}

void read_reasoning_parser_kwargs(FieldReader& reader) {
  std::optional<JsonValue> kwargs;
  reader.read_object("reasoning_parser_kwargs", kwargs);
  if (!kwargs) return;
  for (const auto& [name, value] : kwargs->members()) {
    if (name == "chat_template_kwargs") continue;
    reader.errors().add({"extra_forbidden",
                         reader.loc("reasoning_parser_kwargs") + "." + std::string(name),
                         "Extra inputs are not permitted",
                         describe_input(value),
                         {}});
  }
}

void read_fields(FieldReader& reader, GenerateRequest& out) {
  reader.read("request_id", out.request_id);
  read_token_ids(reader, out);
  read_sampling_params(reader, out);
  reader.read("model", out.model);
  read_reasoning_parser_kwargs(reader);
  std::optional<bool> flag;
  reader.read("return_token_ids", flag);
  out.return_token_ids = flag.value_or(false);
  read_output_mode(reader, out);
  flag.reset();
  reader.read("stream", flag);
  out.stream = flag.value_or(false);
  out.stream_options = read_stream_options(reader);
  if (const auto salt = reader.object()["cache_salt"].as_string()) out.cache_salt = *salt;
  reader.read("priority", out.priority);
}

// What the reference scores or replays by id; this server does not.
MaybeError check_unsupported_params(const JsonValue& body) {
  const JsonValue params = body["sampling_params"];
  for (const char* name : {"prompt_logprob_token_ids", "prompt_logprob_start", "trace_decode_token_ids"}) {
    if (params[name].is_null()) continue;
    return invalid_parameter(fmt::format("{} is not supported by this server.", name), name);
  }
  if (auto error = check_unsupported(params)) return error;
  for (const char* name : {"features", "content_parts"}) {
    if (!truthy(body[name])) continue;
    return invalid_parameter("Multimodal input is not supported by this server.", name);
  }
  return check_unsupported(body);
}

}  // namespace

ApiResult<GenerateRequest> parse_generate_request(const JsonValue& body, const ServingConfig& config) {
  if (auto error = require_object(body)) return *error;
  if (auto error = check_cache_salt(body["cache_salt"])) return *error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  GenerateRequest request;
  read_fields(reader, request);
  SamplingFields& sampling = request.sampling;
  if (auto error = check_thinking_token_budget(body["sampling_params"])) return *error;
  if (sampling.structured_outputs.error) return *sampling.structured_outputs.error;
  if (!errors.empty()) return errors.to_api_error();
  if (sampling.repetition_detection_error) return *sampling.repetition_detection_error;
  // A list of ids is enough to ask for log-probs here.
  if (sampling.logprob_token_ids && !sampling.logprob_token_ids->empty() && !sampling.logprobs) {
    sampling.logprobs = static_cast<int64_t>(sampling.logprob_token_ids->size());
  }
  if (auto error = check_sampling_ranges(sampling, config)) return *error;
  if (auto error = check_unsupported_params(body)) return *error;
  if (request.output_mode == OutputMode::kText && !sampling.detokenize) {
    add_value_error(errors, "body", body, "output_mode='text' requires sampling_params.detokenize to be true");
    return errors.to_api_error();
  }
  return request;
}

}  // namespace unspool
