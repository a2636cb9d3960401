#include "protocol/token_response.h"

#include <fmt/format.h>

#include <algorithm>

#include "protocol/prompt_tokens.h"
#include "protocol/wire_values.h"
#include "tokenizer/incremental_detokenizer.h"

namespace unspool {
namespace {

std::optional<FinishReason> finish_reason(std::string_view name) {
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kAbort,
                                    FinishReason::kRepetition, FinishReason::kError}) {
    if (name == to_string(reason)) return reason;
  }
  return std::nullopt;
}

void read_finish(FieldReader& reader, SequenceDelta& out, ResponsePart part) {
  std::optional<std::string> name;
  reader.read("finish_reason", name);
  if (!name && part == ResponsePart::kChunk) return;
  out.finish_reason = finish_reason(name.value_or("stop"));
  if (!out.finish_reason) {
    reader.errors().add({"literal_error",
                         reader.loc("finish_reason"),
                         "Input should be 'stop', 'length', 'abort', 'repetition' or 'error'",
                         describe_input(reader.object()["finish_reason"]),
                         {}});
  }
  const JsonValue reason = reader.object()["stop_reason"];
  if (const auto text = reason.as_string()) {
    out.stop_reason = std::string(*text);
  } else if (const auto id = reason.as_int64(); id && *id >= 0 && *id <= INT32_MAX) {
    out.stop_reason = static_cast<int32_t>(*id);
  }
}

std::optional<TokenLogprob> read_logprob(const JsonValue& json) {
  const auto id = json["token_id"].as_int64();
  const auto value = json["logprob"].as_double();
  if (!id || !value || *id < 0 || *id > INT32_MAX) return std::nullopt;
  const auto rank = json["rank"].as_int64().value_or(0);
  // What a float does not hold is what the wire's floor stands for.
  return TokenLogprob{static_cast<int32_t>(*id), static_cast<float>(std::clamp(*value, double{kLogprobFloor}, 1e30)),
                      static_cast<int32_t>(std::clamp<int64_t>(rank, 0, INT32_MAX))};
}

// The sampled token first, the others without repeating it.
void read_logprobs(FieldReader& reader, SequenceDelta& out) {
  const JsonValue content = reader.object()["logprobs"]["content"];
  size_t index = 0;
  for (const JsonValue& entry : content.elements()) {
    const auto sampled = read_logprob(entry);
    if (!sampled) {
      reader.errors().add({"missing",
                           fmt::format("{}.content.{}", reader.loc("logprobs"), index),
                           "Input should have a token_id and a logprob",
                           describe_input(entry),
                           {}});
      return;
    }
    PositionLogprobs& position = out.logprobs.emplace_back(PositionLogprobs{*sampled});
    for (const JsonValue& top : entry["top_logprobs"].elements()) {
      const auto other = read_logprob(top);
      if (other && other->token_id != sampled->token_id) position.push_back(*other);
    }
    ++index;
  }
}

void read_weight_versions(const JsonValue& spans, SequenceDelta& out) {
  const auto at = [](const JsonValue& value) {
    return static_cast<int>(std::clamp<int64_t>(value.as_int64().value_or(0), 0, INT32_MAX));
  };
  for (const JsonValue& span : spans.elements()) {
    const auto version = span["version"].as_string();
    if (version) out.weight_versions.push_back({std::string(*version), at(span["start"]), at(span["end"])});
  }
}

void read_ids(FieldReader& reader, SequenceDelta& out) {
  std::optional<std::vector<int64_t>> ids;
  reader.read("token_ids", ids, {.ge = 0});
  if (ids) out.token_ids = to_token_ids(*ids);
}

MaybeError check_size(const SequenceDelta& choice, const ServingConfig& config) {
  for (const auto& [name, size] :
       {std::pair{"token_ids", choice.token_ids.size()}, std::pair{"logprobs content", choice.logprobs.size()}}) {
    if (static_cast<int64_t>(size) <= config.max_model_len) continue;
    return bad_request(fmt::format("{} length ({}) in choice {} exceeds max_model_len ({}).", name, size, choice.index,
                                   config.max_model_len));
  }
  return std::nullopt;
}

}  // namespace

ApiResult<TokenResponse> read_token_response(const JsonValue& json, const std::string& loc, FieldErrors& errors,
                                             const ServingConfig& config, ResponsePart part) {
  TokenResponse out;
  if (!json.is_object()) {
    errors.add({"model_attributes_type",
                loc,
                "Input should be a valid dictionary or object to extract fields from",
                describe_input(json),
                {}});
    return out;
  }
  FieldReader reader(json, loc, errors);
  reader.read("request_id", out.request_id);
  if (json["output_mode"].as_string().value_or("tokens") != "tokens") {
    return invalid_parameter("Only responses with output_mode 'tokens' are taken: others have their text already.",
                             "output_mode");
  }
  const JsonValue choices = json["choices"];
  if (!choices.is_array()) reader.missing("choices");
  if (static_cast<int64_t>(choices.size()) > config.max_n) {
    return bad_request(fmt::format("choices count ({}) in response '{}' exceeds server maximum ({}).", choices.size(),
                                   out.request_id, config.max_n));
  }
  for (const JsonValue& choice : choices.elements()) {
    FieldReader inner(choice, fmt::format("{}.choices.{}", loc, out.choices.size()), errors);
    SequenceDelta& delta = out.choices.emplace_back();
    delta.index = static_cast<int>(out.choices.size()) - 1;
    read_finish(inner, delta, part);
    read_ids(inner, delta);
    read_logprobs(inner, delta);
    read_weight_versions(choice["weight_versions"], delta);
    out.has_logprobs = out.has_logprobs || !delta.logprobs.empty();
    if (auto error = check_size(delta, config)) return *error;
  }
  return out;
}

AnsweredPrompt read_answered_prompt(const JsonValue& num_tokens, const JsonValue& ids, const JsonValue& response,
                                    const std::string& loc, FieldErrors& errors, const ServingConfig& config) {
  AnsweredPrompt out;
  const JsonValue& known = ids.is_null() ? response["prompt_token_ids"] : ids;
  if (!known.is_null()) {
    if (auto list = coerce_int_list(known, loc + "prompt_token_ids", errors, {.ge = 0})) {
      out.ids = to_token_ids(*list);
      out.num_tokens = static_cast<int64_t>(out.ids.size());
    }
  }
  if (!num_tokens.is_null()) {
    const IntRange range{.ge = 0, .le = config.max_model_len};
    out.num_tokens = coerce_int(num_tokens, loc + "prompt_tokens", errors, range).value_or(0);
  }
  return out;
}

void fill_in_text(SequenceDelta& delta, const AnsweredPrompt& prompt, bool skip_special_tokens, bool keep_stop,
                  const ServingConfig& config) {
  IncrementalDetokenizer detokenizer(config.tokenizer, prompt.ids, skip_special_tokens, true);
  for (const int32_t id : delta.token_ids) delta.text += detokenizer.push(id);
  const auto* stop = std::get_if<std::string>(&delta.stop_reason);
  if (stop == nullptr || delta.finish_reason != FinishReason::kStop) return;
  const size_t at = delta.text.rfind(*stop);
  if (at != std::string::npos) delta.text.resize(keep_stop ? at + stop->size() : at);
}

}  // namespace unspool
