#include "tokenizer/split_behavior.h"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/json_fields.h"

namespace unspool {
namespace {

using unicode::Span;

// Neighbouring spans that `joins(span, its predecessor)` puts together, in the order of the iteration.
template <class Iterator, class Joins>
std::vector<Span> join(Iterator begin, Iterator end, Joins joins) {
  std::vector<Span> joined;
  bool previous_match = false;  // also before the first span
  for (auto it = begin; it != end; ++it) {
    if (!joined.empty() && joins(it->is_match, previous_match)) {
      joined.back().begin = std::min(joined.back().begin, it->begin);
      joined.back().end = std::max(joined.back().end, it->end);
    } else {
      joined.push_back(*it);
    }
    previous_match = it->is_match;
  }
  return joined;
}

}  // namespace

Result<SplitBehavior> parse_split_behavior(std::string_view part, std::string_view name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return tokenizer_error(fmt::format("{}.behavior", part),
                         fmt::format("expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, "
                                     "got {}",
                                     name));
}

void append_pieces(const std::vector<Span>& spans, SplitBehavior behavior, bool invert, const SplitText::Piece& piece,
                   std::vector<SplitText::Piece>& pieces) {
  std::vector<Span> kept = spans;
  if (invert) {
    for (Span& span : kept) span.is_match = !span.is_match;
  }
  const auto after_other = [](bool match, bool previous_match) { return match && !previous_match; };
  switch (behavior) {
    case SplitBehavior::kIsolated:
      break;
    case SplitBehavior::kRemoved:
      std::erase_if(kept, [](const Span& span) { return span.is_match; });
      break;
    case SplitBehavior::kMergedWithPrevious:
      kept = join(kept.begin(), kept.end(), after_other);
      break;
    case SplitBehavior::kMergedWithNext:
      kept = join(kept.rbegin(), kept.rend(), after_other);
      std::reverse(kept.begin(), kept.end());
      break;
    case SplitBehavior::kContiguous:
      kept = join(kept.begin(), kept.end(), [](bool match, bool previous_match) { return match == previous_match; });
      break;
  }
  for (const Span& span : kept) {
    if (span.begin == span.end) continue;
    pieces.push_back({piece.begin + span.begin, piece.begin + span.end, piece.begins_original && span.begin == 0});
  }
}

}  // namespace unspool
