#include "base/ids.h"

#include <fmt/format.h>

#include <random>

namespace unspool {

uint64_t random_u64() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return generator();
}

std::string random_hex(int digits) {
  return fmt::format("{:016x}", random_u64()).substr(0, static_cast<size_t>(digits));
}

}  // namespace unspool
