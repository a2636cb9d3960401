#include "protocol/render_api.h"

#include "protocol/sampling_json.h"
#include "protocol/wire_values.h"

namespace unspool {
namespace {

void write_stream_options(JsonWriter& w, const OpenAiRequest& request) {
  w.key("stream_options");
  const StreamOptions& options = request.stream_options;
  if (!options.include_usage && !options.continuous_usage_stats) return w.null();
  w.begin_object();
  w.key("include_usage");
  w.boolean(options.include_usage);
  w.key("continuous_usage_stats");
  w.boolean(options.continuous_usage_stats);
  w.end_object();
}

void write_generate_request(JsonWriter& w, const PreparedPrompt& prompt, const OpenAiRequest& request,
                            const PreparedRequest& prepared, const ServingConfig& config) {
  SamplingFields fields = prepared.sampling;
  fields.max_tokens = prompt.params.max_tokens;
  w.begin_object();
  w.key("request_id");
  w.string(prompt.external_id);
  w.key("token_ids");
  write_token_ids(w, prompt.token_ids);
  for (const char* key : {"token_offsets", "features", "content_parts"}) {
    w.key(key);
    w.null();
  }
  w.key("sampling_params");
  write_sampling_params(w, fields);
  w.key("model");
  w.string(config.model_name());
  for (const char* key : {"reasoning_ended", "reasoning_parser_kwargs"}) {
    w.key(key);
    w.null();
  }
  w.key("return_token_ids");
  w.boolean(request.return_token_ids);
  w.key("output_mode");
  w.string("tokens");
  w.key("stream");
  w.boolean(request.stream);
  write_stream_options(w, request);
  w.key("cache_salt");
  if (prepared.cache_salt.empty()) {
    w.null();
  } else {
    w.string(prepared.cache_salt);
  }
  w.key("priority");
  w.integer(prepared.priority);
  for (const char* key : {"kv_transfer_params", "ec_transfer_params"}) {
    w.key(key);
    w.null();
  }
  w.end_object();
}

}  // namespace

ApiResult<std::string> render_chat_request(const JsonValue& body, const RequestHeaders& headers,
                                           const ServingConfig& config) {
  const auto request = parse_chat_request(body, config);
  if (!request.ok()) return request.error();
  const auto prepared = prepare_chat(*request, headers, config);
  if (!prepared.ok()) return prepared.error();
  if (prepared->lazy_error) return *prepared->lazy_error;
  JsonWriter w;
  write_generate_request(w, prepared->prompts.front(), *request, *prepared, config);
  return std::move(w).str();
}

ApiResult<std::string> render_completion_request(const JsonValue& body, const RequestHeaders& headers,
                                                 const ServingConfig& config) {
  const auto request = parse_completion_request(body, config);
  if (!request.ok()) return request.error();
  const auto prepared = prepare_completion(*request, headers, config);
  if (!prepared.ok()) return prepared.error();
  if (prepared->lazy_error) return *prepared->lazy_error;
  JsonWriter w;
  w.begin_array();
  for (const PreparedPrompt& prompt : prepared->prompts) write_generate_request(w, prompt, *request, *prepared, config);
  w.end_array();
  return std::move(w).str();
}

}  // namespace unspool
