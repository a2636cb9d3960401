// Which sampling parameters are refused, when, and in which words.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_set>

#include "protocol/python_text.h"
#include "protocol/sampling_fields.h"

namespace unspool {
namespace {

// Rows of the sampler's tables are bounded: the reference has the same limits.
constexpr size_t kMaxLogprobTokenIds = 128;
constexpr size_t kMaxLogitBiasEntries = 1024;
constexpr size_t kMaxAllowedTokenIds = 1024;
// A message is no place for thousands.
constexpr size_t kMaxNamedValues = 100;

std::string number(double value) {
  return python::repr(value);
}

MaybeError check_penalty(const char* name, const std::optional<double>& value) {
  if (!value || (*value >= -2.0 && *value <= 2.0)) return std::nullopt;
  return bad_request(fmt::format("{} must be in [-2, 2], got {}.", name, number(*value)));
}

MaybeError check_temperature(double temperature) {
  const auto refuse = [&](const char* text) {
    return invalid_parameter(fmt::format("temperature must be {}, got {}.", text, number(temperature)), "temperature",
                             number(temperature));
  };
  if (!std::isfinite(temperature)) return refuse("a finite number");
  if (temperature < 0.0) return refuse("non-negative");
  if (temperature > 2.0) return refuse("in [0, 2]");
  return std::nullopt;
}

MaybeError check_lengths(const SamplingFields& f) {
  if (f.max_tokens && *f.max_tokens < 1) {
    return invalid_parameter(fmt::format("max_tokens must be at least 1, got {}.", *f.max_tokens), "max_tokens",
                             std::to_string(*f.max_tokens));
  }
  if (f.min_tokens < 0) {
    return bad_request(fmt::format("min_tokens must be greater than or equal to 0, got {}.", f.min_tokens));
  }
  if (f.max_tokens && f.min_tokens > *f.max_tokens) {
    return bad_request(
        fmt::format("min_tokens must be less than or equal to max_tokens={}, got {}.", *f.max_tokens, f.min_tokens));
  }
  if (f.stream_interval && *f.stream_interval < 1) {
    return invalid_parameter(fmt::format("stream_interval must be at least 1, got {}.", *f.stream_interval),
                             "stream_interval", std::to_string(*f.stream_interval));
  }
  return std::nullopt;
}

MaybeError check_logprob_count(const char* name, const std::optional<int64_t>& value) {
  if (!value || *value >= -1) return std::nullopt;
  return invalid_parameter(fmt::format("{} must be non-negative or -1, got {}.", name, *value), name,
                           std::to_string(*value));
}

MaybeError check_words(const SamplingFields& f) {
  const auto empty = [](const std::string& s) { return s.empty(); };
  if (std::any_of(f.stop.begin(), f.stop.end(), empty)) return bad_request("stop cannot contain an empty string.");
  if (!f.stop.empty() && !f.detokenize) {
    return bad_request("stop strings are only supported when detokenize is True. Set detokenize=True to use stop.");
  }
  if (std::any_of(f.bad_words.begin(), f.bad_words.end(), empty)) {
    return bad_request("bad_words cannot contain an empty string. Got bad_words=" + python::repr(f.bad_words));
  }
  return std::nullopt;
}

// Our own two fields.
MaybeError check_additions(const SamplingFields& f) {
  if (f.logprobs_mode && !parse_logprobs_mode(*f.logprobs_mode)) {
    return invalid_parameter(
        "logprobs_mode must be one of raw_logprobs, raw_logits, processed_logprobs, processed_logits.", "logprobs_mode",
        *f.logprobs_mode);
  }
  if (f.return_kept_mass.value_or(false) && !f.logprobs) {
    return invalid_parameter("when using `return_kept_mass`, `logprobs` must be set.", "return_kept_mass");
  }
  return std::nullopt;
}

std::vector<int64_t> outside_vocabulary(std::span<const int64_t> ids, int64_t vocab_size) {
  std::vector<int64_t> bad;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(bad), [&](int64_t id) { return id < 0 || id >= vocab_size; });
  if (bad.size() > kMaxNamedValues) bad.resize(kMaxNamedValues);
  return bad;
}

MaybeError check_ids(const char* name, std::span<const int64_t> ids, int64_t vocab_size) {
  const auto bad = outside_vocabulary(ids, vocab_size);
  if (bad.empty()) return std::nullopt;
  return invalid_parameter(fmt::format("token_id(s) {} in {} contain out-of-vocab token ids. Vocabulary size: {}",
                                       python::repr(bad), name, vocab_size),
                           name, python::repr(bad));
}

MaybeError check_logprob_limit(const char* what, const char* name, const std::optional<int64_t>& count,
                               const ServingConfig& config) {
  if (!count) return std::nullopt;
  const int64_t asked = *count == -1 ? config.vocab_size : *count;
  if (asked <= config.effective_max_logprobs()) return std::nullopt;
  return invalid_parameter(fmt::format("Requested {} logprobs of {}, which is greater than max allowed: {}", what,
                                       asked, config.effective_max_logprobs()),
                           name, std::to_string(asked));
}

MaybeError too_many(const char* name, size_t size, size_t limit) {
  if (size <= limit) return std::nullopt;
  return invalid_parameter(fmt::format("{} has {} entries, which is more than the maximum of {}.", name, size, limit),
                           name, std::to_string(size));
}

MaybeError check_logprob_token_ids(const SamplingFields& f, const ServingConfig& config) {
  if (!f.logprob_token_ids) return std::nullopt;
  if (f.logprob_token_ids->size() > kMaxLogprobTokenIds) {
    return invalid_parameter(
        fmt::format("Requested logprob_token_ids of length {}, which is greater than max allowed: {}",
                    f.logprob_token_ids->size(), kMaxLogprobTokenIds),
        "logprob_token_ids", std::to_string(f.logprob_token_ids->size()));
  }
  return check_ids("logprob_token_ids", *f.logprob_token_ids, config.vocab_size);
}

MaybeError check_allowed_ids(const SamplingFields& f, const ServingConfig& config) {
  if (!f.allowed_token_ids) return std::nullopt;
  if (f.allowed_token_ids->empty()) {
    return invalid_parameter("allowed_token_ids is not None and empty!", "allowed_token_ids", "[]");
  }
  if (auto error = too_many("allowed_token_ids", f.allowed_token_ids->size(), kMaxAllowedTokenIds)) return error;
  const auto bad = outside_vocabulary(*f.allowed_token_ids, config.vocab_size);
  if (bad.empty()) return std::nullopt;
  return invalid_parameter("allowed_token_ids contains out-of-vocab token id!", "allowed_token_ids", python::repr(bad));
}

// Parameters that bar every id altogether leave nothing to draw. What bars them only sometimes fails in the sampler.
MaybeError check_something_is_left(const SamplingFields& f, const SamplingParams& params, int64_t vocab_size) {
  std::unordered_set<int32_t> barred;
  for (const auto& word : params.bad_words_token_ids) {
    if (word.size() == 1) barred.insert(word[0]);
  }
  if (f.min_tokens > 0) {
    barred.insert(params.stop_token_ids.begin(), params.stop_token_ids.end());
    barred.insert(params.extra_eos_token_ids.begin(), params.extra_eos_token_ids.end());
    if (params.eos_token_id) barred.insert(*params.eos_token_id);
  }
  if (!params.allowed_token_ids) {
    const auto rows = std::count_if(barred.begin(), barred.end(), [&](int32_t id) { return id < vocab_size; });
    if (rows < vocab_size) return std::nullopt;
    return bad_request("No token is left to generate: bad_words or min_tokens bar them all.");
  }
  const auto& allowed = *params.allowed_token_ids;
  if (!std::all_of(allowed.begin(), allowed.end(), [&](int32_t id) { return barred.contains(id); }))
    return std::nullopt;
  return invalid_parameter("allowed_token_ids leaves no token to generate: bad_words or min_tokens bar them all.",
                           "allowed_token_ids");
}

// Both at the start of a text and within it: with and without a leading space, where the latter is one token more or
// less the same. As the reference does it.
MaybeError tokenize_bad_words(const SamplingFields& f, const ServingConfig& config, SamplingParams& out) {
  if (f.bad_words.empty()) return std::nullopt;
  const auto refuse = [&](std::string message) {
    return invalid_parameter(std::move(message), "bad_words", python::repr(f.bad_words));
  };
  if (!config.tokenizer) return refuse("bad_words needs a tokenizer, which this server does not load.");
  auto& words = out.bad_words_token_ids;
  std::unordered_set<std::string_view> seen;
  for (const std::string& word : f.bad_words) {
    if (!seen.insert(word).second) continue;
    const std::string stripped = word.substr(std::min(word.find_first_not_of(" \t\n\r\v\f"), word.size()));
    for (const bool prefix_space : {false, true}) {
      auto ids = config.tokenizer->encode((prefix_space ? " " : "") + stripped, false);
      if (ids.empty()) {
        if (!prefix_space) return refuse("bad_words entries must tokenize to at least one token.");
        continue;
      }
      const bool adds = !prefix_space || (ids[0] != words.back()[0] && ids.size() == words.back().size());
      if (!adds) continue;
      words.push_back(std::move(ids));
      if (static_cast<int64_t>(words.size()) > config.max_bad_words) {
        return refuse(fmt::format("Too many bad words after tokenization: {}. The max number is {}.", words.size(),
                                  config.max_bad_words));
      }
    }
  }
  // A tokenizer may know more ids than the model has rows; those are never drawn anyway.
  std::erase_if(words, [&](const std::vector<int32_t>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= config.vocab_size; });
  });
  return std::nullopt;
}

std::vector<int32_t> narrow(std::span<const int64_t> ids) {
  return std::vector<int32_t>(ids.begin(), ids.end());
}

std::vector<int32_t> distinct(std::span<const int64_t> ids) {
  std::vector<int32_t> out;
  std::unordered_set<int64_t> seen;
  for (const int64_t id : ids) {
    if (seen.insert(id).second) out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

// A double within what float32 holds: beyond that the sampler would meet infinities, or a zero where none is allowed.
float narrow(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kLargest, kLargest));
}
float narrow_positive(double value) {
  return std::max(narrow(value), std::numeric_limits<float>::min());
}

std::optional<int> narrow(const std::optional<int64_t>& value) {
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

MaybeError check_sampling_ranges(const SamplingFields& f, const ServingConfig& config) {
  if (f.structured_outputs.conflict) return f.structured_outputs.conflict;
  if (!f.bad_logit_bias_keys.empty()) {
    auto bad = f.bad_logit_bias_keys;
    if (bad.size() > kMaxNamedValues) bad.resize(kMaxNamedValues);
    const std::string keys = python::repr(bad);
    return invalid_parameter("logit_bias contains key(s) that cannot be converted to integer token IDs: " + keys,
                             "logit_bias", keys);
  }
  if (f.n < 1) return bad_request(fmt::format("n must be at least 1, got {}.", f.n));
  if (f.n > config.max_n) {
    return bad_request(
        fmt::format("n must be at most {}, got {}. To increase this limit, set the VLLM_MAX_N_SEQUENCES "
                    "environment variable.",
                    config.max_n, f.n));
  }
  if (auto error = check_penalty("presence_penalty", f.presence_penalty)) return error;
  if (auto error = check_penalty("frequency_penalty", f.frequency_penalty)) return error;
  const double repetition = f.repetition_penalty.value_or(1.0);
  if (!std::isfinite(repetition)) {
    return bad_request("repetition_penalty must be a finite number, got " + number(repetition) + ".");
  }
  if (repetition <= 0.0) {
    return bad_request("repetition_penalty must be greater than zero, got " + number(repetition) + ".");
  }
  const double temperature = f.temperature.value_or(1.0);
  if (auto error = check_temperature(temperature)) return error;
  const double top_p = f.top_p.value_or(1.0);
  if (!(top_p > 0.0 && top_p <= 1.0)) {
    return invalid_parameter(fmt::format("top_p must be in (0, 1], got {}.", number(top_p)), "top_p", number(top_p));
  }
  if (f.top_k.value_or(0) < -1) {
    return bad_request(fmt::format("top_k must be 0 (disable), or at least 1, got {}.", *f.top_k));
  }
  const double min_p = f.min_p.value_or(0.0);
  if (!(min_p >= 0.0 && min_p <= 1.0))
    return bad_request(fmt::format("min_p must be in [0, 1], got {}.", number(min_p)));
  if (auto error = check_lengths(f)) return error;
  if (auto error = check_logprob_count("logprobs", f.logprobs)) return error;
  if (auto error = check_logprob_count("prompt_logprobs", f.prompt_logprobs)) return error;
  if (auto error = check_words(f)) return error;
  if (temperature == 0.0 && f.n > 1) {
    return bad_request(fmt::format("n must be 1 when using greedy sampling, got {}.", f.n));
  }
  return check_additions(f);
}

MaybeError check_against_model(const SamplingFields& f, PromptFacts prompt, const ServingConfig& config) {
  // A list of ids asks for those alone, so `logprobs` does not count there.
  const bool listed = f.logprob_token_ids && !f.logprob_token_ids->empty();
  if (!listed) {
    if (auto error = check_logprob_limit("sample", "logprobs", f.logprobs, config)) return error;
  }
  if (auto error = check_logprob_token_ids(f, config)) return error;
  if (auto error = check_logprob_limit("prompt", "prompt_logprobs", f.prompt_logprobs, config)) return error;
  std::vector<int64_t> biased;
  for (const auto& [id, bias] : f.logit_bias) biased.push_back(id);
  if (auto error = check_ids("logit_bias", biased, config.vocab_size)) return error;
  if (std::any_of(f.logit_bias.begin(), f.logit_bias.end(), [](const auto& b) { return !std::isfinite(b.second); })) {
    return invalid_parameter("logit_bias must hold finite numbers.", "logit_bias");
  }
  if (auto error = too_many("logit_bias", biased.size(), kMaxLogitBiasEntries)) return error;
  if (f.stop_token_ids) {
    if (auto error = check_ids("stop_token_ids", *f.stop_token_ids, config.vocab_size)) return error;
  }
  if (auto error = check_allowed_ids(f, config)) return error;
  if (f.thinking_token_budget) {
    return bad_request(
        "thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser and/or "
        "--reasoning-config to use thinking_token_budget.");
  }
  if (auto error = check_constraint(f.structured_outputs, config)) return error;
  const int64_t length = prompt.length;
  if (length == 0) return bad_request("The decoder prompt cannot be empty");
  if (length > config.max_model_len) {
    return bad_request(
        fmt::format("The decoder prompt (length {}) is longer than the maximum model length of {}. Make sure "
                    "that `max_model_len` is no smaller than the number of text tokens.",
                    length, config.max_model_len));
  }
  if (length == config.max_model_len) {
    return bad_request(fmt::format(
        "The decoder prompt (length {}) plus the number of requested output tokens (at least 1) is longer than the "
        "maximum "
        "model length of {}. Make sure that `max_model_len` is no smaller than the number of text tokens (prompt + "
        "requested output tokens).",
        length, config.max_model_len));
  }
  if (prompt.largest_id >= config.vocab_size) {
    return bad_request(fmt::format("Token id {} is out of vocabulary", prompt.largest_id));
  }
  if (f.routed_experts_prompt_start > length) {
    return invalid_parameter(
        fmt::format("routed_experts_prompt_start must be between 0 and the prompt length ({}), inclusive.", length),
        "routed_experts_prompt_start", std::to_string(f.routed_experts_prompt_start));
  }
  return std::nullopt;
}

ApiResult<SamplingParams> to_sampling_params(const SamplingFields& f, const ServingConfig& config) {
  // Below this the reference's arithmetic gets unsafe, and it raises the value; so must we, to be asked for the same.
  constexpr double kSmallestTemperature = 0.01;
  SamplingParams p;
  p.n = static_cast<int>(f.n);
  const double temperature = f.temperature.value_or(1.0);
  p.temperature = static_cast<float>(temperature > 0.0 ? std::max(temperature, kSmallestTemperature) : 0.0);
  if (temperature > 0.0) {
    p.top_p = narrow_positive(f.top_p.value_or(1.0));
    p.top_k = static_cast<int>(std::min<int64_t>(f.top_k.value_or(0), config.vocab_size));
    p.min_p = static_cast<float>(f.min_p.value_or(0.0));
  }
  p.presence_penalty = static_cast<float>(f.presence_penalty.value_or(0.0));
  p.frequency_penalty = static_cast<float>(f.frequency_penalty.value_or(0.0));
  p.repetition_penalty = narrow_positive(f.repetition_penalty.value_or(1.0));
  if (f.seed && *f.seed != -1) p.seed = f.seed;
  p.max_tokens = static_cast<int>(std::min<int64_t>(f.max_tokens.value_or(config.max_model_len), config.max_model_len));
  p.min_tokens = static_cast<int>(std::min<int64_t>(f.min_tokens, p.max_tokens));
  p.stop = f.stop;
  if (f.stop_token_ids) p.stop_token_ids = distinct(*f.stop_token_ids);
  p.eos_token_id = config.eos_token_id;
  p.extra_eos_token_ids = config.extra_eos_token_ids;
  p.ignore_eos = f.ignore_eos;
  p.include_stop_str_in_output = f.include_stop_str_in_output;
  p.logprobs = narrow(f.logprobs);
  p.prompt_logprobs = narrow(f.prompt_logprobs);
  if (f.logprob_token_ids) p.logprob_token_ids = distinct(*f.logprob_token_ids);
  if (!p.logprob_token_ids.empty()) p.logprobs = 0;
  p.logprobs_mode = f.logprobs_mode ? *parse_logprobs_mode(*f.logprobs_mode) : config.logprobs_mode;
  p.routed_experts_prompt_start = static_cast<int>(f.routed_experts_prompt_start);
  p.return_kept_mass = f.return_kept_mass.value_or(false);
  for (const auto& [id, bias] : f.logit_bias) p.logit_bias.emplace_back(static_cast<int32_t>(id), narrow(bias));
  if (f.allowed_token_ids) p.allowed_token_ids = narrow(*f.allowed_token_ids);
  p.repetition_detection = f.repetition_detection;
  p.structured_outputs = to_structured_outputs(f.structured_outputs, config);
  p.detokenize = f.detokenize && config.tokenizer != nullptr;
  p.skip_special_tokens = f.skip_special_tokens;
  p.spaces_between_special_tokens = f.spaces_between_special_tokens;
  p.skip_reading_prefix_cache = f.skip_reading_prefix_cache.value_or(f.prompt_logprobs.has_value());
  if (auto error = tokenize_bad_words(f, config, p)) return *error;
  if (auto error = check_something_is_left(f, p, config.vocab_size)) return *error;
  return p;
}

}  // namespace unspool
