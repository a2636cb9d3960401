#include "protocol/generate_reply.h"

#include <algorithm>
#include <utility>

#include "protocol/npy.h"

namespace unspool {
namespace {

void write_rank(JsonWriter& w, int32_t rank) {
  w.key("rank");
  if (rank > 0) {
    w.integer(rank);
  } else {
    w.null();
  }
}

}  // namespace

GenerateReply::GenerateReply(ReplyOptions options, GenerateReplyOptions generate, TokenText text)
    : ReplyAssembler(std::move(options)), generate_(generate), text_(std::move(text)) {}

void GenerateReply::write_mode(JsonWriter& w) const {
  w.key("output_mode");
  w.string(text_mode() ? "text" : "tokens");
}

// In text mode a token is its text with its bytes, unless the server shows ids throughout.
void GenerateReply::write_token(JsonWriter& w, int32_t id, const TokenContext& context) const {
  const std::string shown = text_.show(id, context.tokens());
  w.key("token");
  w.string(shown);
  if (!text_mode()) return;
  w.key("bytes");
  if (text_.shows_ids()) {
    w.null();
    return;
  }
  w.begin_array();
  for (const char byte : shown) w.integer(static_cast<unsigned char>(byte));
  w.end_array();
}

void GenerateReply::write_entry(JsonWriter& w, const TokenLogprob& entry, const TokenContext& context) const {
  w.begin_object();
  if (!text_mode()) {
    w.key("token_id");
    w.integer(entry.token_id);
  }
  w.key("logprob");
  write_floored_logprob(w, entry.logprob);
  if (!text_mode()) write_rank(w, entry.rank);
  write_token(w, entry.token_id, context);
}

void GenerateReply::write_logprobs(JsonWriter& w, Choice& choice, const SequenceDelta& delta) const {
  const bool all = generate_.all_candidates || *generate_.logprobs == -1;
  const size_t limit = static_cast<size_t>(std::max(*generate_.logprobs, 1));
  w.begin_object();
  w.key("content");
  w.begin_array();
  for (size_t i = 0; i < delta.token_ids.size(); ++i) {
    const PositionLogprobs none = {{delta.token_ids[i], kLogprobFloor, 0}};
    const bool known = i < delta.logprobs.size() && !delta.logprobs[i].empty();
    const PositionLogprobs& entries = known ? delta.logprobs[i] : none;
    write_entry(w, entries.front(), choice.context);
    if (i < delta.kept_logprobs.size()) {
      w.key("kept_logprob");
      write_floored_logprob(w, delta.kept_logprobs[i]);
    }
    w.key("top_logprobs");
    w.begin_array();
    for (size_t k = 0; known && k < entries.size() && (all || k < limit); ++k) {
      write_entry(w, entries[k], choice.context);
      w.end_object();
    }
    w.end_array();
    w.end_object();
    choice.context.push(delta.token_ids[i]);
  }
  w.end_array();
  w.end_object();
}

void GenerateReply::write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta) {
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("finish_reason");
  write_finish_reason(w, delta.finish_reason);
  w.key("stop_reason");
  write_stop_reason(w, delta.finish_reason, delta.stop_reason);
  w.key("token_ids");
  write_token_ids(w, delta.token_ids);
  w.key("routed_experts");
  write_routed_experts(w, delta.routed_experts);
  w.key("sampling_mask");
  w.null();
  w.key("weight_versions");
  if (delta.finish_reason) {
    write_weight_versions(w, delta.weight_versions);
  } else {
    w.null();
  }
  if (text_mode()) {
    w.key("text");
    w.string(delta.text);
  }
  w.key("logprobs");
  if (generate_.logprobs) {
    write_logprobs(w, choice, delta);
  } else {
    w.null();
  }
  w.end_object();
}

std::string GenerateReply::chunk(int index, Choice& choice, SequenceDelta delta) {
  // Once a request, not once a choice.
  const bool first = std::none_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.sent; });
  JsonWriter w;
  w.begin_object();
  w.key("request_id");
  w.string(options_.id);
  w.key("usage");
  if (options_.continuous_usage) {
    write_usage(w, choice_usage(index, choice));
  } else {
    w.null();
  }
  if (first && generate_.return_token_ids) {
    w.key("prompt_token_ids");
    write_token_ids(w, options_.prompts.front());
  }
  write_mode(w);
  w.key("choices");
  w.begin_array();
  write_choice(w, index, choice, delta);
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

std::string GenerateReply::body() {
  JsonWriter w;
  w.begin_object();
  w.key("request_id");
  w.string(options_.id);
  w.key("model");
  w.string(options_.model);
  w.key("created");
  w.integer(options_.created);
  w.key("usage");
  write_usage(w, usage());
  w.key("prompt_logprobs");
  if (const auto& logprobs = prompts_.front().logprobs) {
    write_prompt_logprobs(w, *logprobs, text_, broken_number_);
  } else {
    w.null();
  }
  w.key("prompt_token_id_logprobs");
  w.null();
  w.key("prompt_token_ids");
  if (generate_.return_token_ids) {
    write_token_ids(w, options_.prompts.front());
  } else {
    w.null();
  }
  for (const char* key : {"mm_placeholders", "metrics", "kv_transfer_params", "ec_transfer_params"}) {
    w.key(key);
    w.null();
  }
  write_mode(w);
  w.key("choices");
  w.begin_array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const SequenceDelta delta = std::exchange(choices_[i].pending, {});
    write_choice(w, static_cast<int>(i), choices_[i], delta);
  }
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

std::string GenerateReply::usage_chunk() {
  JsonWriter w;
  w.begin_object();
  w.key("request_id");
  w.string(options_.id);
  w.key("usage");
  write_stream_usage(w, usage());
  write_mode(w);
  w.key("choices");
  w.begin_array();
  w.end_array();
  w.end_object();
  return std::move(w).str();
}

}  // namespace unspool
