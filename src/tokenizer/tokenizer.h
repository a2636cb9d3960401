// Text to token ids and back, from a Hugging Face tokenizer.json.
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

  // Ids of UTF-8 text, as PyPI's `tokenizers` gives them; invalid bytes become U+FFFD before anything else.
  // `add_special_tokens` runs the post-processor's template (BOS and the like). The file's truncation and padding are
  // not applied, as in transformers.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  // Text of ids. Bytes that are not UTF-8 become U+FFFD; unknown ids give nothing.
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  virtual int32_t vocab_size() const = 0;  // one more than the largest id
  // The raw vocabulary piece ("Ġworld"; of an added token its content, normalized where it is sought normalized), or
  // empty for an unknown id.
  virtual std::string_view id_to_piece(int32_t id) const = 0;
  virtual int32_t piece_to_id(std::string_view piece) const = 0;  // -1 where absent
  // The bytes a token stands for where it follows others: of a byte-level token or <0x0A> the raw ones, of "▁word"
  // those of " word", else what the decoder makes of the piece. May be part of a character. Empty for an unknown id.
  virtual std::string_view id_to_bytes(int32_t id) const = 0;
  // How a token is shown by itself: as decode gives it, with the spaces that its piece begins with. U+FFFD stands for
  // bytes that are no character.
  virtual std::string token_text(int32_t id) const { return decode(std::span(&id, 1), false); }
  // Whether decode gives the bytes of the tokens, one after the other, with the separator between. Otherwise what a
  // token becomes depends on its neighbours: the first may lose a space, and bytes that make no character spoil others.
  virtual bool joins_bytes() const { return true; }
  virtual bool is_special(int32_t id) const = 0;
  // What stands between the bytes of two tokens in decoded text: nothing, or a space where the file has no decoder.
  virtual std::string_view separator() const { return {}; }
  virtual int32_t max_piece_chars() const = 0;  // characters of the longest piece, for the bound on prompt length
};

}  // namespace unspool
