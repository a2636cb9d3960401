#include "protocol/openai_request.h"

#include <fmt/format.h>

#include "protocol/python_text.h"

namespace unspool {
namespace {

constexpr int64_t kMaxCacheSaltCharacters = 128;

void read_truncation_side(FieldReader& reader, OpenAiRequest& out) {
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

}  // namespace

bool read_flag(FieldReader& reader, const char* name) {
  std::optional<bool> flag;
  reader.read(name, flag);
  return flag.value_or(false);
}

void read_stop(FieldReader& reader, SamplingFields& out, const ServingConfig& config) {
  const auto value = reader.find("stop");
  if (!value || value->is_null()) return;
  if (const auto text = value->as_string()) {
    out.stop = {std::string(*text)};
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
    out.stop = std::move(*list);
    return;
  }
  reader.errors().append(failures);
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

void read_closing_fields(FieldReader& reader, OpenAiRequest& out) {
  reader.read("truncate_prompt_tokens", out.truncate_prompt_tokens, {.ge = -1});
  read_truncation_side(reader, out);
  reader.read("prompt_logprobs", out.sampling.prompt_logprobs);
  reader.read("bad_words", out.sampling.bad_words);
  reader.read("add_special_tokens", out.add_special_tokens);
  read_structured_outputs(reader, out.sampling.structured_outputs, ResponseFormats::kRead);
  reader.read("priority", out.priority);
  reader.read("request_id", out.request_id);
  std::optional<std::string> session_id;
  reader.read("session_id", session_id);
  reader.read("return_tokens_as_token_ids", out.return_tokens_as_token_ids);
  out.return_token_ids = read_flag(reader, "return_token_ids");
  reader.read("routed_experts_prompt_start", out.sampling.routed_experts_prompt_start, {.ge = 0});
  if (const auto salt = reader.object()["cache_salt"].as_string()) out.cache_salt = *salt;
  reader.read("stream_interval", out.sampling.stream_interval, {.ge = 1});
}

MaybeError check_stream_options(const JsonValue& body) {
  if (!truthy(body["stream_options"]) || truthy(body["stream"])) return std::nullopt;
  return invalid_parameter("Stream options can only be defined when `stream=True`.", "stream_options");
}

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

MaybeError check_logprob_counts(const JsonValue& body, const char* const (&names)[2]) {
  for (const char* name : names) {
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
  for (const char* name : names) {
    const auto value = count(name);
    if (!value || *value >= 0 || *value == -1) continue;
    return invalid_parameter(fmt::format("`{}` must be a positive value or -1.", name), name,
                             describe_input(body[name]));
  }
  return std::nullopt;
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

}  // namespace unspool
