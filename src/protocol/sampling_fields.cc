#include "protocol/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "protocol/python_text.h"

namespace unspool {
namespace {

void read_logit_bias(FieldReader& reader, SamplingFields& out) {
  std::optional<JsonValue> object;
  reader.read_object("logit_bias", object);
  if (!object) return;
  std::unordered_map<int64_t, size_t> seen;
  for (const auto& [key, value] : object->members()) {
    const auto bias = coerce_number(value, reader.loc("logit_bias") + "." + std::string(key), reader.errors());
    if (!bias) continue;
    const auto id = python::parse_int(key);
    if (!id) {
      out.bad_logit_bias_keys.emplace_back(key);
    } else if (const auto [at, fresh] = seen.emplace(*id, out.logit_bias.size()); fresh) {
      out.logit_bias.emplace_back(*id, *bias);
    } else {
      out.logit_bias[at->second].second = *bias;
    }
  }
}

void read_repetition_detection(FieldReader& reader, SamplingFields& out) {
  std::optional<JsonValue> object;
  reader.read_object("repetition_detection", object);
  if (!object) return;
  FieldReader inner(*object, reader.loc("repetition_detection"), reader.errors());
  int64_t max_size = 0;
  int64_t min_size = 0;
  int64_t count = 0;
  inner.read("max_pattern_size", max_size);
  inner.read("min_pattern_size", min_size);
  inner.read("min_count", count);
  if (max_size < 0 || min_size < 0 || min_size > max_size) {
    out.repetition_detection_error = bad_request(
        "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. "
        "Set both to 0 to disable repetitive pattern detection.");
  } else if (max_size > 0 && count < 2) {
    out.repetition_detection_error = bad_request(
        "min_count must be >= 2 to detect repetitive patterns in engine output. If you do not wish to detect "
        "repetitive "
        "patterns, set max_pattern_size to 0.");
  } else if (max_size > 0) {
    constexpr int64_t kLimit = 1 << 20;  // longer patterns than any context
    out.repetition_detection = RepetitionDetection{static_cast<int>(std::min(max_size, kLimit)),
                                                   static_cast<int>(std::min(std::max<int64_t>(min_size, 1), kLimit)),
                                                   static_cast<int>(std::min(count, kLimit))};
  }
}

}  // namespace

MaybeError check_thinking_token_budget(const JsonValue& object) {
  const JsonValue value = object["thinking_token_budget"];
  if (value.is_null()) return std::nullopt;
  const auto budget = value.as_int64();
  if (budget && *budget >= -1) return std::nullopt;
  return invalid_parameter("`thinking_token_budget` must be a non-negative integer or -1 for unlimited.",
                           "thinking_token_budget", describe_input(value));
}

void read_common_sampling_fields(FieldReader& reader, SamplingFields& out) {
  reader.read("seed", out.seed);
  reader.read("stop_token_ids", out.stop_token_ids);
  reader.read("include_stop_str_in_output", out.include_stop_str_in_output);
  reader.read("ignore_eos", out.ignore_eos);
  reader.read("min_tokens", out.min_tokens);
  reader.read("skip_special_tokens", out.skip_special_tokens);
  reader.read("spaces_between_special_tokens", out.spaces_between_special_tokens);
  reader.read("allowed_token_ids", out.allowed_token_ids);
  reader.read("logprob_token_ids", out.logprob_token_ids);
  reader.read("watermarking", out.watermarking);
  read_logit_bias(reader, out);
  read_repetition_detection(reader, out);
  reader.read("logprobs_mode", out.logprobs_mode);
  reader.read("return_kept_mass", out.return_kept_mass);
  const JsonValue budget = reader.object()["thinking_token_budget"];
  if (const auto value = budget.as_int64(); value && *value >= 0) out.thinking_token_budget = value;
}

}  // namespace unspool
