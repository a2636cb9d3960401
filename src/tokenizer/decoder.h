// The decoder of tokenizer.json: from tokens to the bytes of a text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

// One step. Immutable; apply may be called from several threads at once.
class DecoderPart {
 public:
  virtual ~DecoderPart() = default;
  // Rewrites the tokens of a text, or joins them. `as_bytes`: bytes that are no character stay as they are; else they
  // become U+FFFD.
  virtual void apply(std::vector<std::string>& tokens, bool as_bytes) const = 0;
};

class Decoder {
 public:
  // Errors: kInvalidArgument naming a type other than ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip and
  // Sequence.
  static Result<Decoder> load(const JsonValue& json);

  // What stands between tokens: a space where there is no decoder, else nothing.
  std::string_view separator() const { return separator_; }
  // Whether decoding puts together what bytes() gives for each token, whatever its neighbours.
  bool joins_bytes() const { return parts_.empty() || (byte_level_ && parts_.size() == 1); }
  // The bytes of one token that follows others. An added token is no exception: where all its characters are of the
  // byte-level alphabet, it too stands for their bytes.
  std::string bytes(std::string_view token) const;
  // The text of tokens, valid UTF-8.
  std::string text(std::vector<std::string> tokens) const;

 private:
  Status add(const JsonValue& json);
  std::string run(std::vector<std::string> tokens, bool as_bytes) const;

  std::string_view separator_;
  bool byte_level_ = false;
  std::vector<std::unique_ptr<const DecoderPart>> parts_;
};

}  // namespace unspool
