#include "protocol/chat_reply.h"

#include <utility>

#include "base/ids.h"
#include "protocol/npy.h"

namespace unspool {
namespace {

using chat::ToolChoice;

void write_optional(JsonWriter& w, const std::optional<std::string>& text) {
  if (text) {
    w.string(*text);
  } else {
    w.null();
  }
}

void write_call_id(JsonWriter& w) {
  w.key("id");
  w.string("chatcmpl-tool-" + random_hex(16));
  w.key("type");
  w.string("function");
}

void write_tool_calls(JsonWriter& w, const std::vector<chat::ToolCall>& calls) {
  w.begin_array();
  for (const chat::ToolCall& call : calls) {
    w.begin_object();
    write_call_id(w);
    w.key("function");
    w.begin_object();
    w.key("name");
    w.string(call.name);
    w.key("arguments");
    w.string(call.arguments);
    w.end_object();
    w.end_object();
  }
  w.end_array();
}

void write_tool_deltas(JsonWriter& w, const std::vector<chat::ToolCallDelta>& deltas) {
  w.begin_array();
  for (const chat::ToolCallDelta& delta : deltas) {
    w.begin_object();
    if (delta.name) write_call_id(w);
    w.key("index");
    w.integer(delta.index);
    w.key("function");
    w.begin_object();
    if (delta.name) {
      w.key("name");
      w.string(*delta.name);
    }
    if (delta.arguments) {
      w.key("arguments");
      w.string(*delta.arguments);
    }
    w.end_object();
    w.end_object();
  }
  w.end_array();
}

// Whether a reply that calls tools says so rather than how the model ended. A plain reply by `auto` always does, even
// when it was cut off behind a call; but what was aborted is to be continued, and its client must see that.
bool ends_in_calls(ToolChoice choice, FinishReason reason, bool called, bool stream) {
  if (choice == ToolChoice::kRequired) return reason == FinishReason::kStop && (called || !stream);
  if (choice != ToolChoice::kAuto || !called) return false;
  return reason == FinishReason::kStop || (!stream && reason != FinishReason::kAbort);
}

}  // namespace

ChatReply::ChatReply(ReplyOptions options, ChatReplyOptions chat, TokenText text)
    : ReplyAssembler(std::move(options)), chat_(std::move(chat)), text_(std::move(text)) {
  if (!options_.stream || chat_.parser == nullptr) return;
  streams_.resize(choices_.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].parser = chat_.parser->stream(options_.prompts[prompt_of(static_cast<int>(i))]);
  }
}

void ChatReply::begin_chunk(JsonWriter& w) const {
  w.begin_object();
  write_head(w, "chat.completion.chunk");
  w.key("choices");
  w.begin_array();
}

Usage ChatReply::chunk_usage(int index, const Choice& choice) const {
  Usage usage = choice_usage(index, choice);
  if (chat_.counts_reasoning) usage.reasoning_tokens = streams_[index].parser->reasoning_tokens();
  return usage;
}

void ChatReply::write_prompt(JsonWriter& w) const {
  w.key("prompt_token_ids");
  if (chat_.return_token_ids && !chat_.batch) {
    write_token_ids(w, options_.prompts.front());
  } else {
    w.null();
  }
  w.key("prompt_text");
  if (chat_.return_prompt_text && !chat_.batch) {
    w.string(chat_.conversations.front().prompt_text);
  } else {
    w.null();
  }
}

std::string ChatReply::opening_chunk(int index, bool with_role, std::string_view content) {
  JsonWriter w;
  begin_chunk(w);
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("delta");
  w.begin_object();
  if (with_role) {
    w.key("role");
    w.string(chat_.conversations[prompt_of(index)].role);
  }
  w.key("content");
  w.string(content);
  w.end_object();
  w.key("logprobs");
  w.null();
  w.key("finish_reason");
  w.null();
  w.end_object();
  w.end_array();
  if (options_.continuous_usage) {
    w.key("usage");
    write_chat_chunk_usage(w, chunk_usage(index, Choice{}));
  }
  if (with_role) write_prompt(w);
  w.end_object();
  return sse_event(w.str());
}

std::string ChatReply::opening() {
  std::string events;
  for (size_t i = 0; i < choices_.size(); ++i) events += opening_chunk(static_cast<int>(i), true, {});
  for (size_t i = 0; i < choices_.size(); ++i) {
    const std::string& echo = chat_.conversations[prompt_of(static_cast<int>(i))].echo;
    if (!echo.empty()) events += opening_chunk(static_cast<int>(i), false, echo);
  }
  return events;
}

chat::OutputDelta ChatReply::read_delta(int index, const SequenceDelta& delta) {
  chat::OutputDelta out;
  if (streams_.empty()) {
    out.content = delta.text;
    return out;
  }
  ChoiceStream& stream = streams_[index];
  out = stream.parser->read(delta.text, delta.token_ids, delta.finish_reason.has_value());
  if (chat_.hide_reasoning) out.reasoning.reset();
  stream.called = stream.called || !out.tool_calls.empty();
  return out;
}

void ChatReply::write_delta(JsonWriter& w, const chat::OutputDelta& delta) const {
  w.begin_object();
  if (delta.content || !delta.tool_calls.empty()) {
    w.key("content");
    write_optional(w, delta.content);
  }
  if (delta.reasoning) {
    w.key("reasoning");
    w.string(*delta.reasoning);
  }
  if (!delta.tool_calls.empty()) {
    w.key("tool_calls");
    write_tool_deltas(w, delta.tool_calls);
  }
  w.end_object();
}

void ChatReply::write_logprobs(JsonWriter& w, Choice& choice, const SequenceDelta& delta) {
  w.key("logprobs");
  if (chat_.logprobs && !chat_.hide_reasoning) {
    write_chat_logprobs(w, delta, *chat_.logprobs, text_, choice.context, broken_number_);
  } else {
    w.null();
  }
}

void ChatReply::write_ids(JsonWriter& w, const SequenceDelta& delta) const {
  w.key("token_ids");
  if (chat_.return_token_ids && !chat_.hide_reasoning) {
    write_token_ids(w, delta.token_ids);
  } else {
    w.null();
  }
}

void ChatReply::write_finish(JsonWriter& w, const SequenceDelta& delta, bool called) const {
  w.key("finish_reason");
  if (delta.finish_reason && ends_in_calls(chat_.tools.choice, *delta.finish_reason, called, options_.stream)) {
    w.string("tool_calls");
  } else {
    write_finish_reason(w, delta.finish_reason);
  }
}

std::string ChatReply::chunk(int index, Choice& choice, SequenceDelta delta) {
  const chat::OutputDelta output = read_delta(index, delta);
  const bool last = delta.finish_reason.has_value();
  if (output.empty() && !last && !shows_tokens()) return {};
  JsonWriter w;
  begin_chunk(w);
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("delta");
  write_delta(w, output);
  write_logprobs(w, choice, delta);
  write_finish(w, delta, !streams_.empty() && streams_[index].called);
  if (last) {
    w.key("stop_reason");
    write_stop_reason(w, delta.finish_reason, delta.stop_reason);
  }
  write_ids(w, delta);
  if (last) {
    w.key("weight_versions");
    write_weight_versions(w, delta.weight_versions);
  }
  w.end_object();
  w.end_array();
  if (last && !options_.include_usage) write_known_fingerprint(w);
  if (options_.continuous_usage) {
    w.key("usage");
    write_chat_chunk_usage(w, chunk_usage(index, choice));
  }
  w.end_object();
  return std::move(w).str();
}

chat::ParsedOutput ChatReply::parse(const SequenceDelta& delta) const {
  if (chat_.parser == nullptr) return {std::nullopt, delta.text, {}};
  chat::ParsedOutput parsed = chat_.parser->parse(delta.text);
  if (chat_.hide_reasoning) parsed.reasoning.reset();
  // What the reference makes of a choice that is null: the calls are taken out of the content, and then dropped.
  if (chat_.tools.choice_is_null) parsed.tool_calls.clear();
  const ToolChoice choice = chat_.tools.choice;
  if (!parsed.content && (choice == ToolChoice::kRequired || choice == ToolChoice::kNamed)) parsed.content = "";
  return parsed;
}

void ChatReply::write_message(JsonWriter& w, int index, const chat::ParsedOutput& parsed) const {
  const ConversationReply& conversation = chat_.conversations[prompt_of(index)];
  w.begin_object();
  w.key("role");
  w.string(conversation.role);
  w.key("content");
  if (conversation.echo.empty()) {
    write_optional(w, parsed.content);
  } else {
    w.string(conversation.echo + parsed.content.value_or(""));
  }
  for (const char* key : {"refusal", "annotations", "audio", "function_call"}) {
    w.key(key);
    w.null();
  }
  if (!parsed.tool_calls.empty()) {
    w.key("tool_calls");
    write_tool_calls(w, parsed.tool_calls);
  }
  w.key("reasoning");
  write_optional(w, parsed.reasoning);
  w.end_object();
}

void ChatReply::write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta) {
  const chat::ParsedOutput parsed = parse(delta);
  if (chat_.counts_reasoning) reasoning_tokens_ += chat_.parser->count_reasoning_tokens(delta.token_ids);
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("message");
  write_message(w, index, parsed);
  write_logprobs(w, choice, delta);
  write_finish(w, delta, !parsed.tool_calls.empty());
  w.key("stop_reason");
  write_stop_reason(w, delta.finish_reason, delta.stop_reason);
  write_ids(w, delta);
  w.key("routed_experts");
  write_routed_experts(w, delta.routed_experts);
  w.key("weight_versions");
  write_weight_versions(w, delta.weight_versions);
  if (chat_.batch && chat_.return_token_ids) {
    w.key("prompt_token_ids");
    write_token_ids(w, options_.prompts[prompt_of(index)]);
  }
  w.end_object();
}

std::string ChatReply::body() {
  JsonWriter w;
  w.begin_object();
  write_head(w, "chat.completion");
  w.key("choices");
  w.begin_array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const SequenceDelta delta = std::exchange(choices_[i].pending, {});
    write_choice(w, static_cast<int>(i), choices_[i], delta);
  }
  w.end_array();
  write_service(w);
  w.key("usage");
  Usage total = usage();
  if (chat_.counts_reasoning) total.reasoning_tokens = reasoning_tokens_;
  write_usage(w, total);
  w.key("prompt_logprobs");
  if (const auto& logprobs = prompts_.front().logprobs; logprobs && !chat_.batch) {
    write_prompt_logprobs(w, *logprobs, text_, broken_number_);
  } else {
    w.null();
  }
  write_prompt(w);
  write_body_end(w);
  return std::move(w).str();
}

std::string ChatReply::usage_chunk() {
  JsonWriter w;
  begin_chunk(w);
  w.end_array();
  w.key("usage");
  Usage total = usage();
  if (chat_.counts_reasoning) {
    total.reasoning_tokens = 0;
    for (const ChoiceStream& stream : streams_) *total.reasoning_tokens += stream.parser->reasoning_tokens();
  }
  write_stream_usage(w, total);
  write_usage_chunk_end(w);
  return std::move(w).str();
}

}  // namespace unspool
