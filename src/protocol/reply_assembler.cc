#include "protocol/reply_assembler.h"

#include <iterator>
#include <utility>

namespace unspool {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

void append(SequenceDelta& to, SequenceDelta&& from) {
  append(to.token_ids, std::move(from.token_ids));
  to.text += from.text;
  append(to.logprobs, std::move(from.logprobs));
  append(to.kept_logprobs, std::move(from.kept_logprobs));
  if (from.finish_reason) {
    to.finish_reason = from.finish_reason;
    to.stop_reason = std::move(from.stop_reason);
    to.weight_versions = std::move(from.weight_versions);
    to.routed_experts = std::move(from.routed_experts);
  }
}

}  // namespace

ReplyAssembler::ReplyAssembler(ReplyOptions options)
    : options_(std::move(options)),
      prompts_(options_.prompts.size()),
      choices_(options_.prompts.size() * static_cast<size_t>(options_.n)),
      times_{options_.arrival_s, options_.arrival_s, options_.arrival_s} {}

std::string ReplyAssembler::add(int prompt_index, RequestOutput output, double now_s) {
  std::string events;
  if (done() || prompt_index < 0 || prompt_index >= num_prompts()) return events;
  if (output.error) {
    error_ = from_engine_error(*output.error);
    return events;
  }
  Prompt& prompt = prompts_[prompt_index];
  if (!std::exchange(prompt.heard, true)) prompt.num_cached_tokens = output.num_cached_tokens;
  if (output.prompt_logprobs) prompt.logprobs = std::move(output.prompt_logprobs);
  if (options_.stream && !std::exchange(opened_, true)) events += opening();
  for (SequenceDelta& delta : output.deltas) {
    if (delta.index < 0 || delta.index >= options_.n) continue;
    if (delta.finish_reason == FinishReason::kError) {
      error_ = internal_server_error();
      return events;
    }
    if (!delta.token_ids.empty()) {
      if (!std::exchange(started_, true)) times_.first_token_s = now_s;
      times_.last_token_s = now_s;
    }
    const int choice = prompt_index * options_.n + delta.index;
    events += take(choice, std::move(delta));
  }
  if (output.finished && !std::exchange(prompt.finished, true)) ++finished_prompts_;
  return events;
}

// The first and the last chunk of a choice leave at once; between them stream_interval tokens make one.
std::string ReplyAssembler::take(int index, SequenceDelta delta) {
  Choice& choice = choices_[index];
  if (choice.finished) return {};
  choice.num_tokens += static_cast<int64_t>(delta.token_ids.size());
  choice.finished = delta.finish_reason.has_value();
  append(choice.pending, std::move(delta));
  if (!options_.stream) return {};
  const bool nothing = choice.pending.text.empty() && choice.pending.token_ids.empty() && !choice.finished;
  const bool enough =
      choice.finished || !choice.sent || static_cast<int>(choice.pending.token_ids.size()) >= options_.stream_interval;
  if (nothing || !enough) return {};
  const std::string json = chunk(index, choice, std::exchange(choice.pending, {}));
  choice.sent = true;
  return json.empty() ? std::string() : sse_event(json);
}

std::string ReplyAssembler::finish() {
  if (!options_.stream) {
    if (error_) return {};
    std::string text = body();
    if (broken_number_) error_ = bad_request("Out of range float values are not JSON compliant: nan");
    return text;
  }
  std::string end;
  if (error_) {
    end = sse_event(stream_error_body(*error_));
  } else if (options_.include_usage) {
    end = sse_event(usage_chunk());
  }
  return end.append(kSseDone);
}

int64_t ReplyAssembler::prompt_tokens() const {
  if (options_.prompt_tokens) return *options_.prompt_tokens;
  int64_t total = 0;
  for (const auto& prompt : options_.prompts) total += static_cast<int64_t>(prompt.size());
  return total;
}

int64_t ReplyAssembler::completion_tokens() const {
  int64_t total = 0;
  for (const Choice& choice : choices_) total += choice.num_tokens;
  return total;
}

void write_reply_head(JsonWriter& w, const ReplyOptions& options, const char* object) {
  w.key("id");
  w.string(options.id);
  w.key("object");
  w.string(object);
  w.key("created");
  w.integer(options.created);
  w.key("model");
  w.string(options.model);
}

void ReplyAssembler::write_head(JsonWriter& w, const char* object) const {
  write_reply_head(w, options_, object);
}

void ReplyAssembler::write_service(JsonWriter& w) const {
  w.key("service_tier");
  w.null();
  w.key("system_fingerprint");
  if (options_.system_fingerprint) {
    w.string(*options_.system_fingerprint);
  } else {
    w.null();
  }
}

void ReplyAssembler::write_body_end(JsonWriter& w) const {
  w.key("kv_transfer_params");
  w.null();
  w.key("ec_transfer_params");
  w.null();
  w.key("metrics");
  if (shows_metrics()) {
    write_request_metrics(w, times_, completion_tokens());
  } else {
    w.null();
  }
  w.end_object();
}

void ReplyAssembler::write_known_fingerprint(JsonWriter& w) const {
  if (!options_.system_fingerprint) return;
  w.key("system_fingerprint");
  w.string(*options_.system_fingerprint);
}

void ReplyAssembler::write_usage_chunk_end(JsonWriter& w) const {
  write_known_fingerprint(w);
  if (shows_metrics()) {
    w.key("metrics");
    write_request_metrics(w, times_, completion_tokens());
  }
  w.end_object();
}

Usage ReplyAssembler::usage() const {
  Usage usage{.prompt_tokens = prompt_tokens(), .completion_tokens = completion_tokens()};
  if (options_.prompt_tokens_details) usage.cached_tokens = prompts_.back().num_cached_tokens;
  return usage;
}

Usage ReplyAssembler::choice_usage(int index, const Choice& choice) const {
  const auto& prompt = options_.prompts[prompt_of(index)];
  // Where nobody has the prompt there is one alone, of which the count is known.
  const auto known = static_cast<int64_t>(prompt.size());
  return {.prompt_tokens = prompt.empty() ? options_.prompt_tokens.value_or(known) : known,
          .completion_tokens = choice.num_tokens};
}

}  // namespace unspool
