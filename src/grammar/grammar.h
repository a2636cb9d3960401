// Grammars over tokens: what an output may be, compiled, and followed token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "request/structured_outputs.h"

namespace unspool {

// Where one output stands in its grammar. One thread at a time.
class GrammarMatcher {
 public:
  virtual ~GrammarMatcher() = default;
  // False where the token cannot follow; the matcher is of no further use then.
  virtual bool accept(int32_t token_id) = 0;
  // Sets the bit of each token that may follow, clears the others; false where the matcher fails. [vocab_size / 32]
  virtual bool fill_mask(std::span<uint32_t> mask) = 0;
  // A stop token has ended the output: nothing is asked of what may come after.
  virtual bool terminated() const = 0;
};

// Immutable; shared by all who asked for the same.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual size_t size_bytes() const = 0;
  // A complete output may be ended by any of `stop_token_ids`; by the vocabulary's own where there are none.
  virtual Result<std::unique_ptr<GrammarMatcher>> matcher(std::span<const int32_t> stop_token_ids) const = 0;
};

// What compiles for one vocabulary. May be called from several threads at once.
class GrammarBackend {
 public:
  virtual ~GrammarBackend() = default;
  // Errors: kInvalidArgument in words that fit the request.
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile(const GrammarSpec& spec) = 0;
};

}  // namespace unspool
