// How single tokens are shown beside their log-probs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"

namespace unspool {

// "token_id:42"
std::string token_id_placeholder(int32_t id);

class TokenText {
 public:
  // Without a tokenizer, or with `as_ids`, show() gives placeholders.
  TokenText(std::shared_ptr<const Tokenizer> tokenizer, bool as_ids);

  // The token's own text. One that ends within a character shows nothing until a token completes it, and that one shows
  // the whole character: `context` holds the tokens before it (the last four count).
  std::string decoded(int32_t id, std::span<const int32_t> context) const;
  std::string show(int32_t id, std::span<const int32_t> context) const;
  // For the first token of an echoed prompt, which has no entry to correct: broken parts are U+FFFD.
  std::string show_alone(int32_t id) const;

  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  bool shows_ids() const { return as_ids_; }

 private:
  std::string completed(int32_t id, std::span<const int32_t> context) const;
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool as_ids_;
};

// The last tokens of a sequence, as TokenText wants them.
class TokenContext {
 public:
  void push(int32_t id);
  std::span<const int32_t> tokens() const { return {ids_, size_}; }

 private:
  static constexpr size_t kSize = 4;  // no character is longer in bytes
  int32_t ids_[kSize] = {};
  size_t size_ = 0;
};

}  // namespace unspool
