// Normalizers that look at one character after the other: Lowercase, Strip, StripAccents, Nmt.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/normalizer.h"
#include "unicode/utf8.h"

namespace unspool {

// Errors: kInvalidArgument naming any other type.
Result<std::unique_ptr<const NormalizerPart>> load_character_normalizer(const std::string& type, const JsonValue& json);

// Rebuilds `text` out of what append(out, character) adds for each of its characters.
template <class Append>
void rewrite_characters(NormalizedText& text, Append append) {
  std::string out;
  out.reserve(text.text.size());
  for (size_t at = 0; at < text.text.size();) {
    const unicode::Decoded character = unicode::decode(text.text, at);
    append(out, character.code_point);
    if (at == 0 && out.empty()) text.begins_at_original = false;
    at += character.size_bytes;
  }
  text.text = std::move(out);
}

}  // namespace unspool
