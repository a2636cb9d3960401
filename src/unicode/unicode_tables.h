// The generated tables behind categories.h (tools/make_unicode_tables.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace unspool::unicode {

inline constexpr size_t kCodePointsPerBlock = 128;
inline constexpr size_t kCodePointBlocks = 0x110000 / kCodePointsPerBlock;

extern const uint8_t kBlockOfCodePoint[kCodePointBlocks];
extern const uint16_t kProperties[][kCodePointsPerBlock];

// Ascending; `to` ends with a zero where it is one code point.
struct LowerCase {
  char32_t from;
  char32_t to[2];
};
extern const LowerCase kLowerCase[];
extern const size_t kLowerCaseSize;

// Ascending. Code points of the same script have the same number; what is in no range goes with any script.
struct ScriptRange {
  char32_t first;
  char32_t last;
  uint16_t script;
};
extern const ScriptRange kScriptRanges[];
extern const size_t kScriptRangesSize;

}  // namespace unspool::unicode
