// What one sample may say next, given what it has said.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "grammar/grammar.h"

namespace unspool {

class Constraint {
 public:
  Constraint(std::shared_ptr<const CompiledGrammar> grammar, std::vector<int32_t> stop_token_ids,
             std::vector<ReasoningEnd> reasoning_ends, int vocab_size);

  // Follows the sample's next tokens and fills the mask of the one after. Errors: a token that the mask had not
  // allowed. May take as long as its grammar makes it.
  Status advance(std::span<const int32_t> token_ids);

  // A bit a token, set where it may come; empty where anything may. Until the next advance().
  std::span<const uint32_t> mask() const {
    return bound_ ? std::span<const uint32_t>(mask_) : std::span<const uint32_t>();
  }

 private:
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::vector<int32_t> stop_token_ids_;
  std::vector<ReasoningEnd> reasoning_ends_;  // empty once the reasoning has ended
  std::unique_ptr<GrammarMatcher> matcher_;   // made by the first advance()
  std::vector<uint32_t> mask_;
  bool bound_ = false;
};

}  // namespace unspool
