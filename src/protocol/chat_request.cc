#include "protocol/chat_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/chat_messages.h"
#include "protocol/request_body.h"
#include "protocol/tool_fields.h"

namespace unspool {
namespace {

MaybeError check_logprob_token_ids(const JsonValue& body) {
  if (!truthy(body["logprob_token_ids"])) return std::nullopt;
  const auto refuse = [](const char* message) { return invalid_parameter(message, "logprob_token_ids"); };
  if (truthy(body["use_beam_search"])) return refuse("`logprob_token_ids` is not supported with beam search.");
  if (!truthy(body["logprobs"])) return refuse("when using `logprob_token_ids`, `logprobs` must be set to true.");
  return std::nullopt;
}

MaybeError check_logprobs(const JsonValue& body) {
  if (auto error = check_logprob_token_ids(body)) return error;
  if (auto error = check_logprob_counts(body, {"prompt_logprobs", "top_logprobs"})) return error;
  const JsonValue top = body["top_logprobs"];
  if (!truthy(top) || truthy(body["logprobs"])) return std::nullopt;
  return invalid_parameter("when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs");
}

// What a batch has no place for.
MaybeError check_batch(const JsonValue& body) {
  const auto refuse = [](const char* what, const char* name) {
    return invalid_parameter(fmt::format("Batch chat completions do not support {}.", what), name);
  };
  if (truthy(body["stream"])) return refuse("streaming", "stream");
  if (truthy(body["tools"])) return refuse("tools", "tools");
  if (truthy(body["use_beam_search"])) return refuse("beam search", "use_beam_search");
  if (truthy(body["echo"])) return refuse("echo", "echo");
  if (body["n"].is_number() && *body["n"].as_double() != 1.0) return refuse("n other than 1", "n");
  return std::nullopt;
}

// The one declared last runs first.
MaybeError run_validators(const JsonValue& body, bool batch) {
  if (batch) {
    if (auto error = check_batch(body)) return error;
  }
  if (auto error = check_cache_salt(body["cache_salt"])) return error;
  if (auto error = check_generation_prompt(body)) return error;
  if (auto error = check_tool_usage(body)) return error;
  if (auto error = check_structured_outputs_count(body)) return error;
  if (auto error = check_logprobs(body)) return error;
  if (auto error = check_stream_options(body)) return error;
  if (auto error = check_response_format(body)) return error;
  return check_thinking_token_budget(body);
}

void read_conversations(FieldReader& reader, ChatRequest& out) {
  const auto messages = reader.find("messages");
  if (!messages) return reader.missing("messages");
  const std::string loc = reader.loc("messages");
  if (!out.batch || !messages->is_array()) {
    check_messages(*messages, loc, reader.errors());
    out.conversations = {*messages};
    return;
  }
  size_t index = 0;
  for (const JsonValue& conversation : messages->elements()) {
    check_messages(conversation, fmt::format("{}.{}", loc, index++), reader.errors());
    out.conversations.push_back(conversation);
  }
}

// How many alternatives are shown beside each token, where log-probs are asked for at all.
void read_logprobs(FieldReader& reader, ChatRequest& out) {
  out.logprobs = read_flag(reader, "logprobs");
  std::optional<int64_t> top = 0;
  reader.read("top_logprobs", top);
  if (out.logprobs) out.sampling.logprobs = top.value_or(0);
}

void read_max_tokens(FieldReader& reader, ChatRequest& out) {
  reader.read("max_tokens", out.sampling.max_tokens);
  std::optional<int64_t> completion_tokens;
  reader.read("max_completion_tokens", completion_tokens);
  if (!completion_tokens) return;
  out.sampling.max_tokens = completion_tokens;
  out.max_tokens_name = "max_completion_tokens";
}

void read_tools(FieldReader& reader, ChatRequest& out) {
  check_tools(reader.object()["tools"], reader.loc("tools"), reader.errors());
  out.chat.tools = reader.object()["tools"];
  out.tools = read_tool_choice(reader.object());
}

void read_reasoning_effort(FieldReader& reader, TemplateFields& out) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  const auto value = reader.find("reasoning_effort");
  if (!value || value->is_null()) return;
  const auto effort = value->as_string();
  if (effort && std::find(std::begin(kEfforts), std::end(kEfforts), *effort) != std::end(kEfforts)) {
    out.reasoning_effort = std::string(*effort);
    return;
  }
  reader.errors().add({"literal_error", reader.loc("reasoning_effort"),
                       "Input should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'",
                       describe_input(*value),
                       R"({'expected': "'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'"})"});
}

void read_documents(FieldReader& reader, TemplateFields& out) {
  const auto value = reader.find("documents");
  if (!value || value->is_null()) return;
  const std::string loc = reader.loc("documents");
  if (!value->is_array()) {
    reader.errors().add({"list_type", loc, "Input should be a valid list", describe_input(*value), {}});
    return;
  }
  size_t index = 0;
  for (const JsonValue& document : value->elements()) {
    const std::string at = fmt::format("{}.{}", loc, index++);
    if (document.is_object()) continue;
    reader.errors().add({"dict_type", at, "Input should be a valid dictionary", describe_input(document), {}});
  }
  out.documents = *value;
}

// In the order of the reference's model, which is the order of its errors.
void read_fields(FieldReader& reader, ChatRequest& out, const ServingConfig& config) {
  SamplingFields& sampling = out.sampling;
  read_conversations(reader, out);
  reader.read("model", out.model);
  reader.read("frequency_penalty", sampling.frequency_penalty);
  read_logprobs(reader, out);
  read_max_tokens(reader, out);
  std::optional<int64_t> n;
  reader.read("n", n);
  sampling.n = n.value_or(1);
  reader.read("presence_penalty", sampling.presence_penalty);
  read_stop(reader, sampling, config);
  out.stream = read_flag(reader, "stream");
  out.stream_options = read_stream_options(reader);
  reader.read("temperature", sampling.temperature);
  reader.read("top_p", sampling.top_p);
  read_tools(reader, out);
  read_reasoning_effort(reader, out.chat);
  reader.read("include_reasoning", out.include_reasoning);
  std::optional<bool> parallel;
  reader.read("parallel_tool_calls", parallel);
  out.tools.parallel = parallel.value_or(true);
  reader.read("top_k", sampling.top_k);
  reader.read("min_p", sampling.min_p);
  reader.read("repetition_penalty", sampling.repetition_penalty);
  read_common_sampling_fields(reader, sampling);
  reader.read("echo", out.echo);
  read_documents(reader, out.chat);
  read_template_fields(reader, out.chat);
  // A template puts its special tokens itself.
  out.add_special_tokens = false;
  read_closing_fields(reader, out);
  out.return_prompt_text = read_flag(reader, "return_prompt_text");
}

}  // namespace

void read_template_fields(FieldReader& reader, TemplateFields& out) {
  reader.read("add_generation_prompt", out.add_generation_prompt);
  reader.read("continue_final_message", out.continue_final_message);
  reader.read("chat_template", out.chat_template);
  std::optional<JsonValue> kwargs;
  reader.read_object("chat_template_kwargs", kwargs);
  out.kwargs = kwargs.value_or(JsonValue());
}

MaybeError check_generation_prompt(const JsonValue& body) {
  if (!truthy(body["continue_final_message"]) || !truthy(body["add_generation_prompt"])) return std::nullopt;
  return bad_request("Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
}

MaybeError check_media_settings(const JsonValue& body, const ServingConfig& config) {
  if (config.chat.trust_request_media) return std::nullopt;
  for (const char* name : {"media_io_kwargs", "mm_processor_kwargs"}) {
    if (truthy(body[name])) {
      return bad_request_for(fmt::format("{} is passed with request, but --trust-request-mm-kwargs is not set.", name),
                             name);
    }
  }
  return std::nullopt;
}

ApiResult<ChatRequest> parse_chat_request(const JsonValue& body, const ServingConfig& config, bool batch) {
  if (auto error = require_object(body)) return *error;
  if (auto error = run_validators(body, batch)) return *error;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  ChatRequest request;
  request.batch = batch;
  read_fields(reader, request, config);
  if (request.sampling.structured_outputs.error) return *request.sampling.structured_outputs.error;
  if (!errors.empty()) return errors.to_api_error();
  if (request.sampling.repetition_detection_error) return *request.sampling.repetition_detection_error;
  if (auto error = check_media_settings(body, config)) return *error;
  if (auto error = check_unsupported(body)) return *error;
  return request;
}

}  // namespace unspool
