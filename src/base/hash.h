// A fast hash. Whoever chooses what is hashed can make it collide; sha256.h is for where that would matter.
#pragma once

#include <cstddef>
#include <cstdint>

namespace unspool {

struct Hash128 {
  uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

Hash128 hash128(const void* bytes, size_t size_bytes, uint64_t seed);  // XXH3

}  // namespace unspool
