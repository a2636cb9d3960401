#include "engine/stop_check.h"

#include <algorithm>

namespace unspool {

namespace {

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

std::optional<Stop> check_stop(const SamplingParams& params, int prompt_length, std::span<const int32_t> output,
                               int max_length) {
  const int32_t token = output.back();
  const int length = static_cast<int>(output.size());
  if (!params.ignore_eos && params.eos_token_id == token) return Stop{FinishReason::kStop, {}, true};
  if (contains(params.stop_token_ids, token) || (!params.ignore_eos && contains(params.extra_eos_token_ids, token))) {
    return Stop{FinishReason::kStop, token, true};
  }
  if (length >= params.max_tokens || (max_length > 0 && prompt_length + length >= max_length)) {
    return Stop{FinishReason::kLength, {}, false};
  }
  if (length >= params.min_tokens && params.repetition_detection &&
      ends_in_repetition(*params.repetition_detection, output)) {
    return Stop{FinishReason::kRepetition, std::string("repetition_detected"), false};
  }
  return std::nullopt;
}

bool ends_in_repetition(const RepetitionDetection& detection, std::span<const int32_t> output) {
  if (detection.min_count < 2) return false;
  for (int64_t size = std::max(detection.min_pattern_size, 1); size <= detection.max_pattern_size; ++size) {
    const int64_t covered = size * detection.min_count;
    if (covered > static_cast<int64_t>(output.size())) return false;
    const auto tail = output.last(static_cast<size_t>(covered));
    if (std::equal(tail.begin() + size, tail.end(), tail.begin())) return true;
  }
  return false;
}

}  // namespace unspool
