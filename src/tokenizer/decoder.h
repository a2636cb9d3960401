// The decoder of tokenizer.json: from tokens to the bytes of a text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/json.h"

namespace unspool {

class Decoder {
 public:
  // Errors: kInvalidArgument naming a type other than ByteLevel, Fuse and Sequence.
  static Result<Decoder> load(const JsonValue& json);

  // What stands between tokens: a space where there is no decoder, else nothing.
  std::string_view separator() const { return separator_; }
  // The bytes of one token. An added token is no exception: where all its characters are of the byte-level alphabet,
  // it too stands for their bytes.
  std::string bytes(std::string_view token) const;

 private:
  std::string_view separator_;
  bool byte_level_ = false;
};

}  // namespace unspool
