// Parts that stand in for those of a tokenizer.json.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

// Each is JSON, as tokenizer.json would hold it.
struct ReplacedParts {
  std::optional<std::string> normalizer;
  std::optional<std::string> pre_tokenizer;
  std::optional<std::string> decoder;
  std::optional<std::string> model_options;  // of a BPE model, the fields beside vocab and merges
};

// As Tokenizer::from_json, with other parts.
Result<std::shared_ptr<const Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json,
                                                             const ReplacedParts& instead);

}  // namespace unspool
