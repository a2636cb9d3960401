// Grammars by xgrammar, whose PyPI package holds a library that needs no Python. It is loaded at run time; where it is
// missing, or is another version, there are no structured outputs.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "grammar/grammar.h"
#include "tokenizer/tokenizer.h"

namespace unspool {

inline constexpr const char* kXgrammarVersion = "0.2.9";
inline constexpr const char* kTvmFfiVersion = "0.1.15";

// The packages, as an unpacked wheel or pip leaves them: both in one directory (site-packages). `directory` is
// UNSPOOL_XGRAMMAR; empty: beside the program, beside the Python package that it lies in, in the virtual environment
// that it lies in or below, then the active one. Errors say what is missing where.
Result<std::filesystem::path> find_xgrammar(const std::string& directory);

struct GrammarVocabulary {
  std::shared_ptr<const Tokenizer> tokenizer;
  int vocab_size = 0;  // the model's
  std::optional<int32_t> eos_token_id;
};

// Loads the packages and tries them on a small grammar: their interface is xgrammar's own affair, and what has the
// right version but behaves differently must not serve.
Result<std::unique_ptr<GrammarBackend>> load_xgrammar(const std::filesystem::path& directory,
                                                      GrammarVocabulary vocabulary);

}  // namespace unspool
