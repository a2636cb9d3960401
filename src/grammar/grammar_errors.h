// How a grammar that cannot be is refused.
#pragma once

#include <string_view>

#include "base/result.h"
#include "request/structured_outputs.h"

namespace unspool {

// What xgrammar says of a text, without its clock and source lines, in the reference's words.
Error grammar_error(GrammarKind kind, std::string_view message);
Error grammar_too_large(double limit_s);
// The reference looks at tags when it reads a request, and blames the field.
Error blame_field(const StructuredOutputs& asked, Error error);

}  // namespace unspool
