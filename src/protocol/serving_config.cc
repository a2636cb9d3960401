#include "protocol/serving_config.h"

namespace unspool {

const char* to_string(LogprobsMode mode) {
  switch (mode) {
    case LogprobsMode::kRawLogprobs:
      return "raw_logprobs";
    case LogprobsMode::kRawLogits:
      return "raw_logits";
    case LogprobsMode::kProcessedLogprobs:
      return "processed_logprobs";
    case LogprobsMode::kProcessedLogits:
      break;
  }
  return "processed_logits";
}

std::optional<LogprobsMode> parse_logprobs_mode(std::string_view name) {
  for (const LogprobsMode mode : {LogprobsMode::kRawLogprobs, LogprobsMode::kRawLogits,
                                  LogprobsMode::kProcessedLogprobs, LogprobsMode::kProcessedLogits}) {
    if (name == to_string(mode)) return mode;
  }
  return std::nullopt;
}

}  // namespace unspool
