#include "models/generation_config.h"

#include <limits>

#include "base/file.h"
#include "models/config_reader.h"

namespace unspool {

Result<GenerationConfig> parse_generation_config(const JsonValue& json, int64_t vocab_size) {
  if (!json.is_object()) return invalid_argument("generation_config.json: expected an object");
  const ConfigReader config("generation_config.json", json);
  constexpr int64_t kMaxInteger = std::numeric_limits<int32_t>::max();
  constexpr double kMaxTemperature = 1e6;
  constexpr double kMaxRepetitionPenalty = 1e6;
  GenerationConfig generation;
  UNSPOOL_ASSIGN(generation.eos_token_ids, config.token_ids("eos_token_id", vocab_size));
  UNSPOOL_ASSIGN(generation.bos_token_id, config.token_id("bos_token_id", vocab_size));
  UNSPOOL_ASSIGN(generation.pad_token_id, config.token_id("pad_token_id", vocab_size));
  UNSPOOL_ASSIGN(generation.temperature, config.number("temperature", 0.0, kMaxTemperature));
  UNSPOOL_ASSIGN(generation.top_k, config.integer("top_k", -1, kMaxInteger));
  UNSPOOL_ASSIGN(generation.top_p, config.number("top_p", 0.0, 1.0, /*above_min=*/true));
  UNSPOOL_ASSIGN(generation.min_p, config.number("min_p", 0.0, 1.0));
  UNSPOOL_ASSIGN(generation.repetition_penalty,
                 config.number("repetition_penalty", 0.0, kMaxRepetitionPenalty, /*above_min=*/true));
  UNSPOOL_ASSIGN(generation.presence_penalty, config.number("presence_penalty", -2.0, 2.0));
  UNSPOOL_ASSIGN(generation.frequency_penalty, config.number("frequency_penalty", -2.0, 2.0));
  UNSPOOL_ASSIGN(generation.max_new_tokens, config.integer("max_new_tokens", 1, kMaxInteger));
  return generation;
}

Result<GenerationConfig> load_generation_config(const std::string& dir, int64_t vocab_size) {
  const std::string path = dir + "/generation_config.json";
  if (!file_exists(path)) return GenerationConfig();
  UNSPOOL_ASSIGN(const std::string text, read_file(path));
  auto document = JsonDocument::parse(text);
  if (!document.ok()) return invalid_argument(path + ": " + document.error().message);
  return parse_generation_config(document->root(), vocab_size);
}

}  // namespace unspool
