#include "tokenizer/decoder.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/json_fields.h"

namespace unspool {

Result<Decoder> Decoder::load(const JsonValue& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.separator_ = " ";
    return decoder;
  }
  UNSPOOL_ASSIGN(const std::string type, type_field("decoder", json));
  if (type == "ByteLevel") {
    decoder.byte_level_ = true;
  } else if (type == "Sequence") {
    if (!json["decoders"].is_array()) return expected_error("decoder Sequence.decoders", "an array", json["decoders"]);
    for (const JsonValue& element : json["decoders"].elements()) {
      if (element.is_null()) return expected_error("decoder Sequence.decoders", "objects", element);
      UNSPOOL_ASSIGN(const Decoder inner, load(element));
      if (inner.byte_level_ && decoder.byte_level_) {  // the second would read the first one's text as an alphabet
        return tokenizer_error("decoder Sequence", "expected one ByteLevel, got more");
      }
      decoder.byte_level_ = decoder.byte_level_ || inner.byte_level_;
    }
  } else if (type != "Fuse") {
    return tokenizer_error("decoder", fmt::format("type {} is not supported (ByteLevel, Fuse and Sequence are)", type));
  }
  return decoder;
}

std::string Decoder::bytes(std::string_view token) const {
  if (byte_level_) {
    if (auto bytes = from_byte_level(token)) return *std::move(bytes);
  }
  return std::string(token);
}

}  // namespace unspool
