// The pieces that replies of several routes share, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "json/json_writer.h"
#include "protocol/token_text.h"
#include "request/outputs.h"

namespace unspool {

// The wire's stand-in for minus infinity.
inline constexpr float kLogprobFloor = -9999.0f;

// A log-prob (or logit) as a JSON number, floored. NaN and +inf have no JSON form: null, and `broken` is set, for the
// reference refuses to send such a reply.
void write_logprob(JsonWriter& w, float value, bool& broken);
// The token route floors NaN too.
void write_floored_logprob(JsonWriter& w, float value);

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  std::optional<int64_t> cached_tokens = {};     // set: prompt_tokens_details is shown
  std::optional<int64_t> reasoning_tokens = {};  // set: completion_tokens_details is shown
};
// Five keys, null where unset.
void write_usage(JsonWriter& w, const Usage& usage);
// In streams: what is unset is left out.
void write_stream_usage(JsonWriter& w, const Usage& usage);
// On a chunk of a chat stream: completion_tokens_details is there, null where unset.
void write_chat_chunk_usage(JsonWriter& w, const Usage& usage);

void write_token_ids(JsonWriter& w, const std::vector<int32_t>& ids);
void write_finish_reason(JsonWriter& w, const std::optional<FinishReason>& reason);
void write_stop_reason(JsonWriter& w, const std::optional<FinishReason>& finish, const StopReason& reason);
void write_weight_versions(JsonWriter& w, const std::vector<WeightVersionSpan>& spans);

// [null, {"<id>": {"logprob", "rank", "decoded_token"}, ...}, ...]. `prompt` gives the context of its tokens.
void write_prompt_logprobs(JsonWriter& w, const std::vector<PositionLogprobs>& positions, const TokenText& text,
                           bool& broken);

// What --enable-per-request-metrics adds; the times are on one monotonic clock.
struct RequestTimes {
  double arrival_s = 0;
  double first_token_s = 0;
  double last_token_s = 0;
};
void write_request_metrics(JsonWriter& w, const RequestTimes& times, int64_t completion_tokens);

// "data: <json>\n\n"
std::string sse_event(std::string_view json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace unspool
