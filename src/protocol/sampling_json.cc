#include "protocol/sampling_json.h"

#include <string>
#include <vector>

namespace unspool {
namespace {

void write_integer(JsonWriter& w, const char* key, const std::optional<int64_t>& value) {
  w.key(key);
  if (value) {
    w.integer(*value);
  } else {
    w.null();
  }
}

void write_number(JsonWriter& w, const char* key, double value) {
  w.key(key);
  w.number(value);
}

void write_flag(JsonWriter& w, const char* key, bool value) {
  w.key(key);
  w.boolean(value);
}

void write_ids(JsonWriter& w, const char* key, const std::optional<std::vector<int64_t>>& ids) {
  if (!ids) return;
  w.key(key);
  w.begin_array();
  for (const int64_t id : *ids) w.integer(id);
  w.end_array();
}

void write_texts(JsonWriter& w, const char* key, const std::vector<std::string>& texts) {
  w.key(key);
  w.begin_array();
  for (const std::string& text : texts) w.string(text);
  w.end_array();
}

void write_text(JsonWriter& w, const char* key, const std::optional<std::string>& text) {
  if (!text) return;
  w.key(key);
  w.string(*text);
}

void write_logit_bias(JsonWriter& w, const SamplingFields& fields) {
  if (fields.logit_bias.empty()) return;
  w.key("logit_bias");
  w.begin_object();
  for (const auto& [id, bias] : fields.logit_bias) {
    w.key(std::to_string(id));
    w.number(bias);
  }
  w.end_object();
}

void write_repetition_detection(JsonWriter& w, const SamplingFields& fields) {
  if (!fields.repetition_detection) return;
  w.key("repetition_detection");
  w.begin_object();
  write_integer(w, "max_pattern_size", fields.repetition_detection->max_pattern_size);
  write_integer(w, "min_pattern_size", fields.repetition_detection->min_pattern_size);
  write_integer(w, "min_count", fields.repetition_detection->min_count);
  w.end_object();
}

void write_structured_outputs(JsonWriter& w, const StructuredOutputsFields& fields) {
  if (fields.num_kinds() == 0) return;
  w.key("structured_outputs");
  w.begin_object();
  write_text(w, "json", fields.json);
  write_text(w, "regex", fields.regex);
  if (fields.choice) write_texts(w, "choice", *fields.choice);
  write_text(w, "grammar", fields.grammar);
  if (fields.json_object) write_flag(w, "json_object", *fields.json_object);
  write_text(w, "structural_tag", fields.structural_tag);
  write_text(w, "whitespace_pattern", fields.whitespace_pattern);
  write_flag(w, "disable_any_whitespace", fields.disable_any_whitespace);
  write_flag(w, "disable_additional_properties", fields.disable_additional_properties);
  w.end_object();
}

}  // namespace

void write_sampling_params(JsonWriter& w, const SamplingFields& f) {
  w.begin_object();
  write_integer(w, "n", f.n);
  write_number(w, "presence_penalty", f.presence_penalty.value_or(0.0));
  write_number(w, "frequency_penalty", f.frequency_penalty.value_or(0.0));
  write_number(w, "repetition_penalty", f.repetition_penalty.value_or(1.0));
  write_number(w, "temperature", f.temperature.value_or(1.0));
  write_number(w, "top_p", f.top_p.value_or(1.0));
  write_integer(w, "top_k", f.top_k.value_or(0));
  write_number(w, "min_p", f.min_p.value_or(0.0));
  write_integer(w, "seed", f.seed);
  write_texts(w, "stop", f.stop);
  write_ids(w, "stop_token_ids", f.stop_token_ids);
  write_flag(w, "ignore_eos", f.ignore_eos);
  write_integer(w, "max_tokens", f.max_tokens);
  write_integer(w, "min_tokens", f.min_tokens);
  write_integer(w, "logprobs", f.logprobs);
  write_integer(w, "prompt_logprobs", f.prompt_logprobs);
  write_ids(w, "logprob_token_ids", f.logprob_token_ids);
  write_text(w, "logprobs_mode", f.logprobs_mode);
  if (f.return_kept_mass) write_flag(w, "return_kept_mass", *f.return_kept_mass);
  write_flag(w, "skip_special_tokens", f.skip_special_tokens);
  write_flag(w, "spaces_between_special_tokens", f.spaces_between_special_tokens);
  write_flag(w, "include_stop_str_in_output", f.include_stop_str_in_output);
  write_logit_bias(w, f);
  write_ids(w, "allowed_token_ids", f.allowed_token_ids);
  write_texts(w, "bad_words", f.bad_words);
  write_repetition_detection(w, f);
  write_structured_outputs(w, f.structured_outputs);
  if (f.skip_reading_prefix_cache) write_flag(w, "skip_reading_prefix_cache", *f.skip_reading_prefix_cache);
  if (f.routed_experts_prompt_start > 0) {
    write_integer(w, "routed_experts_prompt_start", f.routed_experts_prompt_start);
  }
  if (f.stream_interval) write_integer(w, "stream_interval", f.stream_interval);
  w.end_object();
}

}  // namespace unspool
