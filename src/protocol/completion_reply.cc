#include "protocol/completion_reply.h"

#include <unordered_map>
#include <utility>

#include "protocol/npy.h"
#include "protocol/python_text.h"

namespace unspool {

CompletionReply::CompletionReply(ReplyOptions options, CompletionReplyOptions completion, TokenText text)
    : ReplyAssembler(std::move(options)), completion_(std::move(completion)), text_(std::move(text)) {}

std::string CompletionReply::shown_text(int index, const SequenceDelta& delta, bool with_prompt) const {
  std::string out;
  if (with_prompt && !completion_.return_token_ids) out = completion_.prompt_texts[prompt_of(index)];
  if (!completion_.scores_only) out += delta.text;
  return out;
}

// Equal strings of different tokens share one key; the last one's value stays, in the first one's place, as in a Python
// dict.
void CompletionReply::write_top_logprobs(JsonWriter& w, const PositionLogprobs& position, const TokenContext& context) {
  std::vector<std::pair<std::string, float>> shown;
  std::unordered_map<std::string, size_t> places;
  const int limit = *completion_.logprobs;
  for (size_t i = 0; i < position.size(); ++i) {
    if (!completion_.all_candidates && limit != -1 && static_cast<int>(i) > limit) break;
    std::string token = text_.show(position[i].token_id, context.tokens());
    const auto [place, fresh] = places.emplace(token, shown.size());
    if (fresh) {
      shown.emplace_back(std::move(token), position[i].logprob);
    } else {
      shown[place->second].second = position[i].logprob;
    }
  }
  w.begin_object();
  for (const auto& [token, logprob] : shown) {
    w.key(token);
    write_logprob(w, logprob, broken_number_);
  }
  w.end_object();
}

namespace {

// The four (with kept mass, five) lists of a logprobs object, filled position by position.
class Lists {
 public:
  explicit Lists(int64_t text_offset) : next_offset_(text_offset) {
    for (JsonWriter* list : {&offsets_, &values_, &tokens_, &tops_, &kept_}) list->begin_array();
  }
  JsonWriter& values() { return values_; }
  JsonWriter& tops() { return tops_; }
  JsonWriter& kept() { return kept_; }
  void token(const std::string& shown) {
    offsets_.integer(next_offset_);
    tokens_.string(shown);
    next_offset_ += python::length(shown);
  }
  int64_t next_offset() const { return next_offset_; }

  void write(JsonWriter& w, bool with_kept) {
    for (JsonWriter* list : {&offsets_, &values_, &tokens_, &tops_, &kept_}) list->end_array();
    w.begin_object();
    const auto put = [&](const char* key, const JsonWriter& list) {
      w.key(key);
      w.raw(list.str());
    };
    put("text_offset", offsets_);
    put("token_logprobs", values_);
    put("tokens", tokens_);
    put("top_logprobs", tops_);
    if (with_kept) put("kept_logprob", kept_);
    w.end_object();
  }

 private:
  JsonWriter offsets_, values_, tokens_, tops_, kept_;
  int64_t next_offset_;
};

}  // namespace

void CompletionReply::write_logprobs(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta,
                                     bool with_prompt) {
  Lists lists(choice.next_text_offset);
  const auto position = [&](const PositionLogprobs& entries, TokenContext& context) {
    lists.token(text_.show(entries.front().token_id, context.tokens()));
    write_logprob(lists.values(), entries.front().logprob, broken_number_);
    write_top_logprobs(lists.tops(), entries, context);
    context.push(entries.front().token_id);
  };
  const auto unknown = [&](int32_t id) {
    lists.token(text_.show_alone(id));
    lists.values().null();
    lists.tops().null();
  };
  if (with_prompt) {
    const auto& ids = options_.prompts[prompt_of(index)];
    const auto& entries = prompts_[prompt_of(index)].logprobs;
    TokenContext context;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!entries || i >= entries->size() || (*entries)[i].empty()) {
        unknown(ids[i]);
      } else {
        position((*entries)[i], context);
      }
      lists.kept().null();
    }
  }
  if (!completion_.scores_only) {
    for (size_t i = 0; i < delta.token_ids.size(); ++i) {
      if (i >= delta.logprobs.size() || delta.logprobs[i].empty()) {
        unknown(delta.token_ids[i]);
      } else {
        position(delta.logprobs[i], choice.context);
      }
      if (i < delta.kept_logprobs.size()) {
        write_logprob(lists.kept(), delta.kept_logprobs[i], broken_number_);
      } else {
        lists.kept().null();
      }
    }
  }
  choice.next_text_offset = lists.next_offset();
  lists.write(w, completion_.kept_mass);
}

std::string CompletionReply::chunk(int index, Choice& choice, SequenceDelta delta) {
  const bool first = !choice.sent;
  const bool with_prompt = first && completion_.echo;
  JsonWriter w;
  w.begin_object();
  write_head(w, "text_completion");
  w.key("choices");
  w.begin_array();
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("text");
  w.string(shown_text(index, delta, with_prompt));
  w.key("logprobs");
  if (completion_.logprobs) {
    write_logprobs(w, index, choice, delta, with_prompt);
  } else {
    w.null();
  }
  w.key("finish_reason");
  write_finish_reason(w, delta.finish_reason);
  w.key("stop_reason");
  write_stop_reason(w, delta.finish_reason, delta.stop_reason);
  w.key("prompt_token_ids");
  if (first && (completion_.echo || completion_.return_token_ids)) {
    write_token_ids(w, options_.prompts[prompt_of(index)]);
  } else {
    w.null();
  }
  w.key("token_ids");
  if (completion_.return_token_ids) {
    write_token_ids(w, delta.token_ids);
  } else {
    w.null();
  }
  if (delta.finish_reason) {
    w.key("weight_versions");
    write_weight_versions(w, delta.weight_versions);
  }
  w.end_object();
  w.end_array();
  if (delta.finish_reason && !options_.include_usage) write_known_fingerprint(w);
  if (options_.continuous_usage) {
    w.key("usage");
    write_stream_usage(w, choice_usage(index, choice));
  }
  w.end_object();
  return std::move(w).str();
}

void CompletionReply::write_choice(JsonWriter& w, int index, Choice& choice, const SequenceDelta& delta) {
  w.begin_object();
  w.key("index");
  w.integer(index);
  w.key("text");
  w.string(shown_text(index, delta, completion_.echo));
  w.key("logprobs");
  if (completion_.logprobs) {
    write_logprobs(w, index, choice, delta, completion_.echo);
  } else {
    w.null();
  }
  w.key("finish_reason");
  write_finish_reason(w, delta.finish_reason);
  w.key("stop_reason");
  write_stop_reason(w, delta.finish_reason, delta.stop_reason);
  w.key("token_ids");
  if (completion_.return_token_ids) {
    write_token_ids(w, delta.token_ids);
  } else {
    w.null();
  }
  w.key("prompt_logprobs");
  if (const auto& logprobs = prompts_[prompt_of(index)].logprobs) {
    write_prompt_logprobs(w, *logprobs, text_, broken_number_);
  } else {
    w.null();
  }
  w.key("prompt_token_ids");
  if (completion_.return_token_ids) {
    write_token_ids(w, options_.prompts[prompt_of(index)]);
  } else {
    w.null();
  }
  w.key("routed_experts");
  write_routed_experts(w, delta.routed_experts);
  w.key("weight_versions");
  write_weight_versions(w, delta.weight_versions);
  w.end_object();
}

std::string CompletionReply::body() {
  JsonWriter w;
  w.begin_object();
  write_head(w, "text_completion");
  w.key("choices");
  w.begin_array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const SequenceDelta delta = std::exchange(choices_[i].pending, {});
    write_choice(w, static_cast<int>(i), choices_[i], delta);
  }
  w.end_array();
  write_service(w);
  w.key("usage");
  write_usage(w, usage());
  write_body_end(w);
  return std::move(w).str();
}

std::string CompletionReply::usage_chunk() {
  JsonWriter w;
  w.begin_object();
  write_head(w, "text_completion");
  w.key("choices");
  w.begin_array();
  w.end_array();
  w.key("usage");
  write_stream_usage(w, usage());
  write_usage_chunk_end(w);
  return std::move(w).str();
}

}  // namespace unspool
