// A reply of /inference/v1/generate as derender reads it back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/field_reader.h"
#include "protocol/serving_config.h"
#include "request/outputs.h"

namespace unspool {

struct TokenResponse {
  std::string request_id;
  std::vector<SequenceDelta> choices;  // by index, without text
  bool has_logprobs = false;
};

enum class ResponsePart : uint8_t {
  kWhole,
  kChunk,  // of a stream: it may go on
};

// Reads `loc`. What is wrong in form goes to `errors`; what this server could never have answered is refused.
ApiResult<TokenResponse> read_token_response(const JsonValue& json, const std::string& loc, FieldErrors& errors,
                                             const ServingConfig& config, ResponsePart part = ResponsePart::kWhole);

// The prompt that the response answers.
struct AnsweredPrompt {
  std::vector<int32_t> ids;  // where known; the last few give the first token its context
  int64_t num_tokens = 0;
};
AnsweredPrompt read_answered_prompt(const JsonValue& num_tokens, const JsonValue& ids, const JsonValue& response,
                                    const std::string& loc, FieldErrors& errors, const ServingConfig& config);

// Puts the text in: that of the ids, up to where a stop string ended it.
void fill_in_text(SequenceDelta& delta, const AnsweredPrompt& prompt, bool skip_special_tokens, bool keep_stop,
                  const ServingConfig& config);

}  // namespace unspool
