// Normalisation by sentencepiece's compiled rules, grapheme by grapheme.
#pragma once

#include <memory>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/normalizer.h"

namespace unspool {

Result<std::unique_ptr<const NormalizerPart>> load_precompiled_normalizer(const JsonValue& json);

}  // namespace unspool
