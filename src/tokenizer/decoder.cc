#include "tokenizer/decoder.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "tokenizer/decoder_parts.h"
#include "tokenizer/json_fields.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

size_t total_size(const std::vector<std::string>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), size_t{0},
                         [](size_t sum, const std::string& token) { return sum + token.size(); });
}

}  // namespace

Result<Decoder> Decoder::load(const JsonValue& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.separator_ = " ";
    return decoder;
  }
  UNSPOOL_TRY(decoder.add(json));
  return decoder;
}

Status Decoder::add(const JsonValue& json) {
  UNSPOOL_ASSIGN(const std::string type, type_field("decoder", json));
  if (type == "Sequence") {
    if (!json["decoders"].is_array()) return expected_error("decoder Sequence.decoders", "an array", json["decoders"]);
    for (const JsonValue& element : json["decoders"].elements()) {
      if (element.is_null()) return expected_error("decoder Sequence.decoders", "objects", element);
      UNSPOOL_TRY(add(element));
    }
    return {};
  }
  if (type == "ByteLevel") {
    if (byte_level_) return tokenizer_error("decoder Sequence", "expected one ByteLevel, got more");
    byte_level_ = true;
  }
  UNSPOOL_ASSIGN(auto part, load_decoder_part(type, json));
  // Text that is put together in the end needs no joining where nothing else is done to it.
  if (type != "Fuse" || !joins_bytes()) parts_.push_back(std::move(part));
  return {};
}

std::string Decoder::run(std::vector<std::string> tokens, bool as_bytes) const {
  const size_t max_bytes = grown_size_limit(total_size(tokens));
  for (const auto& part : parts_) {
    if (total_size(tokens) > max_bytes) break;
    part->apply(tokens, as_bytes);
  }
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text.append(separator_);
    text.append(tokens[i]);
  }
  return text;
}

std::string Decoder::text(std::vector<std::string> tokens) const {
  return unicode::to_valid(run(std::move(tokens), false));
}

std::string Decoder::bytes(std::string_view token) const {
  if (joins_bytes()) return run({std::string(token)}, true);
  // Behind a token, for what stands first may lose its space.
  constexpr std::string_view kBefore = "x";
  std::string both = run({std::string(kBefore), std::string(token)}, true);
  if (!both.starts_with(kBefore)) return run({std::string(token)}, true);
  return both.substr(kBefore.size());
}

}  // namespace unspool
