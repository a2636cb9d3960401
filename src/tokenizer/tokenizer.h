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
  // The bytes a token stands for: byte-level decoded where all its characters are of that alphabet (an added token's
  // too), else the piece as it is. May be part of a character. Empty for an unknown id.
  virtual std::string_view id_to_bytes(int32_t id) const = 0;
  virtual bool is_special(int32_t id) const = 0;
  // What stands between the bytes of two tokens in decoded text: nothing, or a space where the file has no decoder.
  virtual std::string_view separator() const { return {}; }
  virtual int32_t max_piece_chars() const = 0;  // characters of the longest piece, for the bound on prompt length
};

// Detokenizes a stream of ids without ever emitting part of a character: what push gives, put together, is what decode
// gives for all its ids at once, less a character left incomplete at the end.
class IncrementalDetokenizer {
 public:
  // `prompt_ids` prime the stream: their text is not emitted, but a character that they leave incomplete is completed
  // by the ids that follow. `spaces_between_special_tokens` changes nothing: the reference asks its decoder for the
  // text, and the decoders supported here put nothing around special tokens whatever the flag.
  IncrementalDetokenizer(std::shared_ptr<const Tokenizer> tokenizer, std::span<const int32_t> prompt_ids,
                         bool skip_special_tokens, bool spaces_between_special_tokens);
  // Text completed by `id`: "" while a character is incomplete, for an unknown id, and for a special token that is
  // skipped. Bytes that can never become valid UTF-8 become U+FFFD.
  std::string push(int32_t id);

 private:
  bool emits(int32_t id) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  bool has_text_before_ = false;  // so that a separator is due
  std::string pending_;           // an incomplete character's bytes, at most 3
};

}  // namespace unspool
