#include "base/hash.h"

#include <xxhash.h>

namespace unspool {

Hash128 hash128(const void* bytes, size_t size_bytes, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size_bytes, seed);
  return {hash.low64, hash.high64};
}

}  // namespace unspool
