// What the model's own files say about tokens and sampling.
#pragma once

#include "base/result.h"
#include "models/model_config.h"
#include "protocol/serving_config.h"
#include "server/options.h"

namespace unspool {

// Loads the tokenizer (unless none is wanted), the generation config and the stop tokens.
Result<ServingConfig> protocol_config(const ServeOptions& options, const ModelConfig& model, int max_model_len);

// "vllm-0.32.0-<8 hex digits>", or what --fingerprint-mode says.
std::optional<std::string> system_fingerprint(const ServeOptions& options);

}  // namespace unspool
