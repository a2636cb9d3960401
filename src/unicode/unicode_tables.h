// The generated tables behind categories.h (tools/make_unicode_tables.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace unspool::unicode {

inline constexpr size_t kCodePointsPerBlock = 128;
inline constexpr size_t kCodePointBlocks = 0x110000 / kCodePointsPerBlock;

extern const uint8_t kBlockOfCodePoint[kCodePointBlocks];
extern const uint8_t kProperties[][kCodePointsPerBlock];

}  // namespace unspool::unicode
