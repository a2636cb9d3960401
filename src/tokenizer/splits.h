// Pre-tokenizers that cut text and leave it as it is.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/pre_tokenizer.h"

namespace unspool {

Result<std::unique_ptr<const PreTokenizer>> load_split(const JsonValue& json);  // by a pattern
// By what characters are: BertPreTokenizer, CharDelimiterSplit, Digits, Punctuation, UnicodeScripts, Whitespace,
// WhitespaceSplit. Errors: kInvalidArgument naming any other type.
Result<std::unique_ptr<const PreTokenizer>> load_character_split(const std::string& type, const JsonValue& json);

}  // namespace unspool
