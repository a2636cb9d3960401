// A file that is cut short while it is mapped makes the next read past its new end a SIGBUS, which ends the process. A
// guard turns that fault into zeros and a flag, for its own range alone.
#pragma once

#include <cstddef>

namespace unspool {

class MappingGuard {
 public:
  MappingGuard() = default;  // guards nothing
  // The range is one mapping, from its first page on. Give the guard up before the mapping.
  MappingGuard(const void* data, size_t size_bytes);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  ~MappingGuard();

  // Something was read that was not there any more. All of the range reads as zeros since, and is the file no longer.
  bool faulted() const;

 private:
  struct Slot;
  friend struct GuardedMappings;
  Slot* slot_ = nullptr;
};

}  // namespace unspool
