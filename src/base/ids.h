// Random identifiers.
#pragma once

#include <cstdint>
#include <string>

namespace unspool {

// 64 random bits from the operating system's generator, mixed per thread. Not for sampling (that is Philox, sampling/).
uint64_t random_u64();

// `digits` lowercase hexadecimal digits, at most 16.
std::string random_hex(int digits = 16);

}  // namespace unspool
