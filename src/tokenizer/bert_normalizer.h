// The normalizer of BERT: clean text, space around Chinese characters, accents, case.
#pragma once

#include <memory>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/normalizer.h"

namespace unspool {

Result<std::unique_ptr<const NormalizerPart>> load_bert_normalizer(const JsonValue& json);

}  // namespace unspool
