#include "protocol/derender_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/completion_reply.h"
#include "protocol/derender_request.h"
#include "protocol/prepare_steps.h"
#include "protocol/prompt_tokens.h"
#include "protocol/python_text.h"

namespace unspool {
namespace {

constexpr size_t kMostCalls = 1024;

// What a client carries from chunk to chunk. The reference carries the end of the text, too, which follows from the
// ids.
struct StreamState {
  std::vector<int32_t> token_ids;  // generated so far
  ResumedStream stream;
};

struct Chunk {
  TokenResponse response;  // of one choice, or of none
  int choice_index = 0;
  AnsweredPrompt prompt;
  StreamState state;
  std::optional<Usage> usage;
};

// False where there is no object: null, or what is a fault.
bool is_object(const JsonValue& json, const std::string& loc, FieldErrors& errors) {
  if (!json.is_null() && !json.is_object()) {
    errors.add({"model_attributes_type",
                loc,
                "Input should be a valid dictionary or object to extract fields from",
                describe_input(json),
                {}});
  }
  return json.is_object();
}

StreamState read_state(const JsonValue& json, FieldErrors& errors) {
  StreamState out;
  if (!is_object(json, "body.stream_state", errors)) return out;
  FieldReader reader(json, "body.stream_state", errors);
  std::optional<std::vector<int64_t>> ids;
  reader.read("output_token_ids", ids, {.ge = 0});
  if (ids) out.token_ids = to_token_ids(*ids);
  bool role_sent = false;
  reader.read("role_sent", role_sent);
  out.stream.role_due = !role_sent;
  reader.read("last_tool_call_ids", out.stream.call_ids);
  return out;
}

std::optional<Usage> read_usage(const JsonValue& json, FieldErrors& errors) {
  if (!is_object(json, "body.generate_chunk.usage", errors)) return std::nullopt;
  FieldReader reader(json, "body.generate_chunk.usage", errors);
  Usage out;
  reader.read("prompt_tokens", out.prompt_tokens, {.ge = 0, .le = INT32_MAX});
  reader.read("completion_tokens", out.completion_tokens, {.ge = 0, .le = INT32_MAX});
  return out;
}

MaybeError check_chunk(const Chunk& chunk, const ServingConfig& config) {
  if (chunk.response.choices.size() > 1) {
    return bad_request_for("A chunk has at most one choice: send those of several one by one", "generate_chunk");
  }
  const size_t added = chunk.response.choices.empty() ? 0 : chunk.response.choices.front().token_ids.size();
  if (static_cast<int64_t>(chunk.state.token_ids.size() + added) > config.max_model_len) {
    return bad_request_for(
        fmt::format("output_token_ids and those of the chunk are {}, which exceeds max_model_len ({}).",
                    chunk.state.token_ids.size() + added, config.max_model_len),
        "stream_state");
  }
  if (chunk.state.stream.call_ids.size() > kMostCalls) {
    return bad_request_for(fmt::format("last_tool_call_ids may have at most {} ids", kMostCalls), "stream_state");
  }
  return std::nullopt;
}

ApiResult<Chunk> read_chunk(const JsonValue& body, const ServingConfig& config) {
  Chunk out;
  FieldErrors errors;
  FieldReader reader(body, "body", errors);
  const JsonValue json = body["generate_chunk"];
  if (!body.find("generate_chunk")) {
    reader.missing("generate_chunk");
    return errors.to_api_error();
  }
  auto response = read_token_response(json, reader.loc("generate_chunk"), errors, config, ResponsePart::kChunk);
  if (!response.ok()) return response.error();
  out.response = std::move(*response);
  for (const JsonValue& choice : json["choices"].elements()) {
    FieldReader inner(choice, reader.loc("generate_chunk") + ".choices.0", errors);
    int64_t index = 0;
    inner.read("index", index, {.ge = 0, .le = INT32_MAX});
    out.choice_index = static_cast<int>(index);
  }
  out.prompt = read_answered_prompt(body["prompt_tokens"], body["prompt_token_ids"], json, "body.", errors, config);
  out.state = read_state(body["stream_state"], errors);
  out.usage = read_usage(json["usage"], errors);
  if (!errors.empty()) return errors.to_api_error();
  if (out.usage && out.prompt.num_tokens > 0) out.usage->prompt_tokens = out.prompt.num_tokens;
  if (auto error = check_chunk(out, config)) return *error;
  return out;
}

// How much of a text that goes on is said: what may yet be cut off with a stop string is held back.
size_t sayable(std::string_view text, const SamplingFields& fields) {
  if (fields.include_stop_str_in_output) return text.size();
  int64_t held = 0;
  for (const std::string& stop : fields.stop) held = std::max(held, python::length(stop) - 1);
  size_t end = text.size();
  for (; held > 0 && end > 0; --held) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  }
  return end;
}

// Lets a reply hear all that came before, then the chunk's choice. What it says to the latter is the chunk; empty where
// there is nothing to say.
std::string say(ReplyAssembler& reply, Chunk& chunk, bool skip_special_tokens, const SamplingFields& fields,
                const ServingConfig& config) {
  if (chunk.response.choices.empty()) return {};
  SequenceDelta& now = chunk.response.choices.front();
  SequenceDelta before;
  before.token_ids = chunk.state.token_ids;
  // Nobody sees these values: they keep the place in the text that the next ones have.
  if (chunk.response.has_logprobs) {
    for (const int32_t id : before.token_ids) before.logprobs.push_back({TokenLogprob{id, 0.0F, 0}});
  }
  // All text there is, as if it were one whole reply, less what the chunks before have said.
  SequenceDelta all = now;
  all.token_ids.insert(all.token_ids.begin(), before.token_ids.begin(), before.token_ids.end());
  fill_in_text(all, chunk.prompt, skip_special_tokens, fields.include_stop_str_in_output, config);
  fill_in_text(before, chunk.prompt, skip_special_tokens, fields.include_stop_str_in_output, config);
  before.text.resize(sayable(before.text, fields));
  if (!now.finish_reason) all.text.resize(sayable(all.text, fields));
  now.text = all.text.substr(std::min(before.text.size(), all.text.size()));
  chunk.state.token_ids = std::move(all.token_ids);

  const auto add = [&reply](SequenceDelta delta) {
    RequestOutput output;
    output.deltas.push_back(std::move(delta));
    return reply.add(0, std::move(output), 0.0);
  };
  if (!before.token_ids.empty()) add(std::move(before));
  std::string event = add(std::move(now));
  if (event.empty()) return event;
  // "data: ...\n\n"
  return event.substr(6, event.size() - 8);
}

ReplyOptions chunk_reply_options(const Chunk& chunk, const ServingConfig& config) {
  ReplyOptions options = derendered_reply_options(chunk.response.request_id, 1, {chunk.prompt}, config);
  options.prompts.front() = chunk.prompt.ids;
  options.first_index = chunk.choice_index;
  options.stream = true;
  options.continuous_usage = chunk.usage.has_value();
  return options;
}

// A chunk without a choice.
std::string empty_chunk(const Chunk& chunk, const char* object, const ReplyOptions& options) {
  JsonWriter w;
  w.begin_object();
  write_reply_head(w, options, object);
  w.key("choices");
  w.begin_array();
  w.end_array();
  if (chunk.usage) {
    w.key("usage");
    write_stream_usage(w, *chunk.usage);
  }
  w.end_object();
  return std::move(w).str();
}

std::string answer(const std::string& chunk, const StreamState& state) {
  JsonWriter w;
  w.begin_object();
  w.key("chunk");
  w.raw(chunk);
  w.key("stream_state");
  w.begin_object();
  w.key("output_token_ids");
  write_token_ids(w, state.token_ids);
  w.key("role_sent");
  w.boolean(!state.stream.role_due);
  w.key("tools_streamed");
  w.boolean(!state.stream.call_ids.empty());
  w.key("last_tool_call_ids");
  w.begin_array();
  for (const std::string& id : state.stream.call_ids) w.string(id);
  w.end_array();
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

}  // namespace

ApiResult<std::string> derender_chat_chunk(const JsonValue& body, const ServingConfig& config) {
  auto asked = read_chat_request(body, config);
  if (!asked.ok()) return asked.error();
  if (asked->conversations.empty() && config.chat.parsers != nullptr) {
    return bad_request_for(
        "chat_request is required for streaming chat derender when a tool or reasoning parser is configured",
        "chat_request");
  }
  auto chunk = read_chunk(body, config);
  if (!chunk.ok()) return chunk.error();
  ChatReplyOptions chat = derendered_chat_options(*asked, chunk->response.has_logprobs, config);
  if (chat.logprobs) chat.logprobs->stream = true;
  chat.resumed = chunk->state.stream;
  const bool skip_special_tokens = skips_special_tokens(*asked, chat);
  const ReplyOptions options = chunk_reply_options(*chunk, config);
  ChatReply reply(options, std::move(chat), token_text(*asked, config));
  std::string json = say(reply, *chunk, skip_special_tokens, asked->sampling, config);
  if (reply.error()) return *reply.error();
  if (json.empty()) json = empty_chunk(*chunk, "chat.completion.chunk", options);
  chunk->state.stream = reply.resumed();
  return answer(json, chunk->state);
}

ApiResult<std::string> derender_completion_chunk(const JsonValue& body, const ServingConfig& config) {
  auto asked = read_completion_request(body, config);
  if (!asked.ok()) return asked.error();
  const CompletionRequest request = asked->value_or(CompletionRequest());
  auto chunk = read_chunk(body, config);
  if (!chunk.ok()) return chunk.error();
  CompletionReplyOptions completion;
  completion.return_token_ids = request.return_token_ids;
  if (chunk->response.has_logprobs) {
    completion.logprobs = *asked ? static_cast<int>(request.sampling.logprobs.value_or(0)) : -1;
  }
  const ReplyOptions options = chunk_reply_options(*chunk, config);
  CompletionReply reply(options, std::move(completion), token_text(request, config));
  std::string json = say(reply, *chunk, request.sampling.skip_special_tokens, request.sampling, config);
  if (reply.error()) return *reply.error();
  if (json.empty()) json = empty_chunk(*chunk, "text_completion", options);
  return answer(json, chunk->state);
}

}  // namespace unspool
