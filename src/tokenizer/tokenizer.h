// Text to token ids and back, from a Hugging Face tokenizer.json (byte-level BPE).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unspool {

// Immutable after loading; every method may be called from several threads at once.
class Tokenizer {
 public:
  // Loads `path` (a tokenizer.json). Errors: kInvalidArgument naming the part that is unknown (a model, normalizer,
  // pre-tokenizer, post-processor or decoder type that is not supported) or malformed.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& path);
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json);
  virtual ~Tokenizer() = default;

  // Ids of UTF-8 text. `add_special_tokens` runs the post-processor's template (BOS and the like).
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  // Text of ids. Incomplete UTF-8 becomes U+FFFD; unknown ids give nothing.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  virtual int32_t vocab_size() const = 0;  // one more than the largest id
  // The raw vocabulary piece ("Ġworld"), or empty for an unknown id.
  virtual std::string_view id_to_piece(int32_t id) const = 0;
  virtual int32_t piece_to_id(std::string_view piece) const = 0;  // -1 where absent
  // The bytes a token stands for (byte-level decoded; an added token's content as it is). May be part of a character.
  virtual std::string_view id_to_bytes(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  virtual int32_t max_piece_chars() const = 0;  // characters of the longest piece, for the bound on prompt length
};

// Detokenizes a stream of ids without ever emitting part of a character.
class IncrementalDetokenizer {
 public:
  // `prompt_ids` prime the stream (their text is not emitted, but a leading space of the first piece follows their context).
  IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, std::span<const int32_t> prompt_ids,
                         bool skip_special_tokens, bool spaces_between_special_tokens);
  // Text completed by `id`: "" while a character is incomplete. Bytes that can never become valid UTF-8 become U+FFFD.
  std::string push(int32_t id);

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  bool spaces_between_special_tokens_;
  bool last_was_special_ = false;
  std::string pending_;  // an incomplete character's bytes, at most 3
};

}  // namespace unspool
