#include "unicode/categories.h"

#include <algorithm>

#include "unicode/utf8.h"

namespace unspool::unicode {

uint16_t script(char32_t code_point) {
  const auto end = kScriptRanges + kScriptRangesSize;
  const auto found = std::lower_bound(kScriptRanges, end, code_point,
                                      [](const ScriptRange& range, char32_t wanted) { return range.last < wanted; });
  return found != end && found->first <= code_point ? found->script : uint16_t{0};
}

void append_lower_case(std::string& text, char32_t code_point) {
  const auto end = kLowerCase + kLowerCaseSize;
  const auto found = std::lower_bound(kLowerCase, end, code_point,
                                      [](const LowerCase& entry, char32_t wanted) { return entry.from < wanted; });
  if (found == end || found->from != code_point) return append(text, code_point);
  for (const char32_t to : found->to) {
    if (to != 0) append(text, to);
  }
}

}  // namespace unspool::unicode
