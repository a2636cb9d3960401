// What a Split pre-tokenizer does with the parts that its pattern matched.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/pre_tokenizer.h"
#include "unicode/pattern.h"

namespace unspool {

// For "the-final--countdown" split at "-":
enum class SplitBehavior {
  kRemoved,             // the final countdown
  kIsolated,            // the - final - - countdown
  kMergedWithPrevious,  // the- final- - countdown
  kMergedWithNext,      // the -final - -countdown
  kContiguous,          // the - final -- countdown
};

// Errors: kInvalidArgument naming `part`, whose field it is.
Result<SplitBehavior> parse_split_behavior(std::string_view part, std::string_view name);

// The pieces that `spans` of `piece` make; empty ones are left out. `invert` swaps matched and unmatched.
void append_pieces(const std::vector<unicode::Span>& spans, SplitBehavior behavior, bool invert,
                   const SplitText::Piece& piece, std::vector<SplitText::Piece>& pieces);

}  // namespace unspool
