// Sampling defaults that a model ships with, from generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

// What the file does not say stays empty. do_sample is not read: a request that names no temperature samples at the
// default.
struct GenerationConfig {
  std::vector<int64_t> eos_token_ids;  // every id is below vocab_size
  std::optional<int64_t> bos_token_id;
  std::optional<int64_t> pad_token_id;
  std::optional<double> temperature;
  std::optional<int64_t> top_k;  // 0 and -1: no limit
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<int64_t> max_new_tokens;
};

Result<GenerationConfig> parse_generation_config(const JsonValue& config, int64_t vocab_size);
// Reads DIR/generation_config.json; a directory without one has an empty config.
Result<GenerationConfig> load_generation_config(const std::string& dir, int64_t vocab_size);

}  // namespace unspool
