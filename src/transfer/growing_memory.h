// Memory that another process fills: a file of nothing but memory, which can grow and never shrinks.
#pragma once

#include <cstddef>
#include <span>

#include "base/descriptor.h"
#include "base/mapping.h"
#include "base/result.h"

namespace unspool {

class GrowingMemory {
 public:
  static Result<GrowingMemory> create();

  int fd() const { return file_.get(); }
  // At least that long from now on; what was there stays.
  Status grow(size_t size_bytes);
  // Back to the operating system; what is read next is zeros.
  void drop_pages();
  std::span<const std::byte> bytes() const { return mapping_.bytes(); }

 private:
  GrowingMemory() = default;
  Descriptor file_;
  Mapping mapping_;
};

}  // namespace unspool
