// The tokenizer of a model's directory, as the reference would load it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/options.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

struct LoadedTokenizer {
  std::string directory;
  std::shared_ptr<const Tokenizer> tokenizer;  // null where none is wanted
  std::optional<int32_t> eos;                  // the token that tokenizer_config.json names
};

// tokenizer.json with the parts that transformers puts in for the class of tokenizer that the files beside it declare.
Result<LoadedTokenizer> load_tokenizer(const ServeOptions& options);

}  // namespace unspool
