// Counter-based random numbers: a draw is a function of its key, so there is no state to save, and neither preemption
// nor batching nor speculation can move a stream.
#pragma once

#include <array>
#include <cstdint>

namespace unspool {

// What a number is for. Two uses at one position must not share bits.
enum class RandomPurpose : uint32_t { kDraw = 0, kAcceptDraft = 1, kResidualDraw = 2 };

// Philox4x32-10 (Salmon et al., SC'11), as Random123 defines it.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// In [0, 1), 53 bits. The seed is the sample's own (request seed + sample index); `position` is absolute.
double uniform(uint64_t seed, int64_t position, RandomPurpose purpose);

}  // namespace unspool
