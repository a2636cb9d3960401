// What transformers makes of a model's tokenizer.json: of some classes of tokenizer it takes the vocabulary alone, and
// builds the other parts itself. The reference's prompts are tokenized with these.
#pragma once

#include <string>
#include <string_view>

#include "json/json.h"
#include "tokenizer/replaced_parts.h"

namespace unspool {

// The class that AutoTokenizer takes ("" where it uses the file as it is). `declared` is tokenizer_class of
// tokenizer_config.json, or of config.json where that has none; `model_type` is config.json's.
std::string tokenizer_class(std::string_view declared, std::string_view model_type, std::string_view tokenizer_json);

// The parts that a class builds, by tokenizer_config.json's options; none for a class that is not known here.
ReplacedParts parts_of_class(std::string_view name, const JsonValue& tokenizer_config);

}  // namespace unspool
