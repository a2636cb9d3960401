// A read-only look at a file's bytes that follows what others write there.
#pragma once

#include <cstddef>
#include <span>

#include "base/mapping_guard.h"
#include "base/result.h"

namespace unspool {

// Moves, does not copy. What is cut off the file meanwhile reads as zeros, and shows in faulted().
class Mapping {
 public:
  Mapping() = default;  // of nothing
  // The first `size_bytes` of a file that may be closed then. The error says why the system refused, and no more.
  static Result<Mapping> of(int fd, size_t size_bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size_bytes() const { return size_; }
  bool faulted() const { return guard_.faulted(); }
  // Resident pages go back to the operating system; they are the file's again when touched.
  void drop_pages() const;

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  MappingGuard guard_;
};

}  // namespace unspool
