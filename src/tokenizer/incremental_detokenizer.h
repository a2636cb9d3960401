// Text of a stream of tokens, as it grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace unspool {

// Detokenizes a stream of ids without ever emitting part of a character: what push gives, put together, is what decode
// adds for all its ids at once to the prompt's text, less a character left incomplete at the end.
//
// One exception is the reference's: among byte tokens <0x41> <0xFF>, decode makes U+FFFD of both. Here the first has
// gone out as "A" by then; the rest of the run is dropped, and what follows begins a text of its own.
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

  // Where decoding puts bytes together, bytes are all there is to remember.
  void prime_bytes(std::span<const int32_t> prompt_ids);
  std::string push_bytes(int32_t id);

  // Elsewhere a token's text depends on those before it: the last ones are decoded anew with each that comes, as the
  // reference does.
  void prime_window(std::span<const int32_t> prompt_ids);
  std::string push_window(int32_t id);
  std::string window_text(size_t count) const;  // of its first tokens
  bool is_byte_token(int32_t id) const;
  bool ends_in_replacement(int32_t id);

  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;

  bool has_text_before_ = false;  // so that a separator is due
  std::string pending_;           // an incomplete character's bytes, at most 3

  std::vector<int32_t> window_;
  size_t num_shown_ = 0;        // tokens of the window whose text is shown_
  std::string shown_;           // text of the window that has gone out
  std::string run_;             // the incomplete character of a run of byte tokens
  bool run_is_broken_ = false;  // it holds bytes that no character can begin with
  bool is_held_back_ = false;   // the window's text is known to end in U+FFFD
};

}  // namespace unspool
