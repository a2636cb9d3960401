// Cuts text where one script follows another.
#pragma once

#include <memory>

#include "tokenizer/pre_tokenizer.h"

namespace unspool {

std::unique_ptr<const PreTokenizer> make_script_split();

}  // namespace unspool
