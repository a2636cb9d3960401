// Mapped files that somebody cuts short while they are read.
#pragma once

#include <cstddef>

namespace unspool {

// A read of a mapped page that the file has no more is a SIGBUS, which ends the process: a trainer that writes a
// checkpoint in place, at the wrong moment, would take the server with it. Within a guarded range such pages become
// zeros instead, and the range is torn: what was read from it counts for nothing.
class TornPagesGuard {
 public:
  TornPagesGuard() = default;
  // Until the guard goes, which must be before the range is unmapped. No more than a few thousand ranges at once are
  // guarded; others are as without a guard.
  TornPagesGuard(void* begin, size_t size_bytes);
  TornPagesGuard(TornPagesGuard&& other) noexcept;
  TornPagesGuard& operator=(TornPagesGuard&& other) noexcept;
  ~TornPagesGuard();

  bool torn() const;

 private:
  int slot_ = -1;
};

}  // namespace unspool
