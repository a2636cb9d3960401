// Time for logs, metrics and replies. Scheduling code takes time as an argument instead.
#pragma once

#include <chrono>
#include <cstdint>

namespace unspool {

// Seconds on a clock that never steps back; only differences mean anything.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970.
inline int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace unspool
