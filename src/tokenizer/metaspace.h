// sentencepiece's way with spaces: each is written as a visible character, and a text begins with one.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/pre_tokenizer.h"

namespace unspool {

struct Metaspace {
  // Which pieces are given a space in front where they have none: of a whole text the first, or of several stretches
  // between added tokens each.
  enum class Prepend { kAlways, kFirst, kNever };

  // Reads what the pre-tokenizer and the decoder share, the old spelling (add_prefix_space) too. Errors:
  // kInvalidArgument naming `part` and the field.
  static Result<Metaspace> load(std::string_view part, const JsonValue& json);

  char32_t replacement = U'▁';
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

Result<std::unique_ptr<const PreTokenizer>> load_metaspace(const JsonValue& json);

}  // namespace unspool
