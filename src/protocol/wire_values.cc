#include "protocol/wire_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace unspool {
namespace {

void write_cached_tokens(JsonWriter& w, int64_t cached_tokens, bool all_keys) {
  w.begin_object();
  w.key("cached_tokens");
  w.integer(cached_tokens);
  if (all_keys) {
    for (const char* key : {"created_cache_tokens", "multimodal_tokens"}) {
      w.key(key);
      w.null();
    }
  }
  w.end_object();
}

void write_token_counts(JsonWriter& w, const Usage& usage) {
  w.key("prompt_tokens");
  w.integer(usage.prompt_tokens);
  w.key("total_tokens");
  w.integer(usage.prompt_tokens + usage.completion_tokens);
  w.key("completion_tokens");
  w.integer(usage.completion_tokens);
}

void write_completion_details(JsonWriter& w, const Usage& usage) {
  w.key("completion_tokens_details");
  if (!usage.reasoning_tokens) return w.null();
  w.begin_object();
  w.key("reasoning_tokens");
  w.integer(*usage.reasoning_tokens);
  w.end_object();
}

}  // namespace

void write_logprob(JsonWriter& w, float value, bool& broken) {
  if (std::isnan(value) || value == HUGE_VALF) {
    broken = true;
    w.null();
  } else {
    w.number(std::max(value, kLogprobFloor));
  }
}

void write_floored_logprob(JsonWriter& w, float value) {
  if (std::isnan(value)) value = kLogprobFloor;
  // No log-prob is +inf, but a logit that overflowed may be.
  w.number(std::clamp(value, kLogprobFloor, 3.4028235e38f));
}

void write_usage(JsonWriter& w, const Usage& usage) {
  w.begin_object();
  write_token_counts(w, usage);
  w.key("prompt_tokens_details");
  if (usage.cached_tokens) {
    write_cached_tokens(w, *usage.cached_tokens, true);
  } else {
    w.null();
  }
  write_completion_details(w, usage);
  w.end_object();
}

void write_stream_usage(JsonWriter& w, const Usage& usage) {
  w.begin_object();
  write_token_counts(w, usage);
  if (usage.cached_tokens) {
    w.key("prompt_tokens_details");
    write_cached_tokens(w, *usage.cached_tokens, false);
  }
  if (usage.reasoning_tokens) write_completion_details(w, usage);
  w.end_object();
}

void write_chat_chunk_usage(JsonWriter& w, const Usage& usage) {
  w.begin_object();
  write_token_counts(w, usage);
  write_completion_details(w, usage);
  w.end_object();
}

void write_token_ids(JsonWriter& w, const std::vector<int32_t>& ids) {
  w.begin_array();
  for (const int32_t id : ids) w.integer(id);
  w.end_array();
}

void write_finish_reason(JsonWriter& w, const std::optional<FinishReason>& reason) {
  if (reason) {
    w.string(to_string(*reason));
  } else {
    w.null();
  }
}

void write_stop_reason(JsonWriter& w, const std::optional<FinishReason>& finish, const StopReason& reason) {
  if (finish && *finish == FinishReason::kRepetition) {
    w.string("repetition_detected");
  } else if (const auto* id = std::get_if<int32_t>(&reason)) {
    w.integer(*id);
  } else if (const auto* text = std::get_if<std::string>(&reason)) {
    w.string(*text);
  } else {
    w.null();
  }
}

void write_weight_versions(JsonWriter& w, const std::vector<WeightVersionSpan>& spans) {
  w.begin_array();
  for (const WeightVersionSpan& span : spans) {
    w.begin_object();
    w.key("version");
    w.string(span.version);
    w.key("start");
    w.integer(span.start);
    w.key("end");
    w.integer(span.end);
    w.end_object();
  }
  w.end_array();
}

void write_prompt_logprobs(JsonWriter& w, const std::vector<PositionLogprobs>& positions, const TokenText& text,
                           bool& broken) {
  TokenContext context;
  w.begin_array();
  for (const PositionLogprobs& position : positions) {
    if (position.empty()) {
      w.null();
      continue;
    }
    w.begin_object();
    for (const TokenLogprob& entry : position) {
      w.key(std::to_string(entry.token_id));
      w.begin_object();
      w.key("logprob");
      write_logprob(w, entry.logprob, broken);
      w.key("rank");
      w.integer(entry.rank);
      w.key("decoded_token");
      if (text.has_tokenizer()) {
        w.string(text.decoded(entry.token_id, context.tokens()));
      } else {
        w.null();
      }
      w.end_object();
    }
    w.end_object();
    context.push(position.front().token_id);
  }
  w.end_array();
}

void write_request_metrics(JsonWriter& w, const RequestTimes& times, int64_t completion_tokens) {
  const double generation_s = times.last_token_s - times.first_token_s;
  const double after_first = static_cast<double>(completion_tokens - 1);
  w.begin_object();
  w.key("time_to_first_token_ms");
  w.number((times.first_token_s - times.arrival_s) * 1e3);
  w.key("generation_time_ms");
  w.number(generation_s * 1e3);
  w.key("queue_time_ms");
  w.null();
  w.key("mean_itl_ms");
  if (after_first > 0) {
    w.number(generation_s * 1e3 / after_first);
  } else {
    w.null();
  }
  w.key("tokens_per_second");
  if (generation_s > 0 && after_first > 0) {
    w.number(after_first / generation_s);
  } else {
    w.null();
  }
  w.key("speculative_decoding");
  w.null();
  w.end_object();
}

std::string sse_event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

}  // namespace unspool
