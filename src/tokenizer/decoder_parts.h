// The steps that a decoder is made of.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "json/json.h"
#include "tokenizer/decoder.h"

namespace unspool {

// Errors: kInvalidArgument naming a type that is not supported, or a field of the wrong kind.
Result<std::unique_ptr<const DecoderPart>> load_decoder_part(const std::string& type, const JsonValue& json);

}  // namespace unspool
