// Weights that come from no file: small numbers, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace unspool {

struct DummyTensor {
  std::string name;
  Shape shape;
};

// A sequence of numbers in [-0.001, 0.001), of which every dummy tensor has the beginning: as the reference's, which
// depend on the number of elements alone. What a tensor needs is made when it is asked for.
class DummyStream {
 public:
  static Result<DummyStream> create(int64_t max_elements, DType dtype);

  DType dtype() const { return dtype_; }
  // The first `elements` numbers, until drop().
  std::span<const std::byte> first(int64_t elements) const;
  void drop() const;  // gives the memory back

  static float number(uint64_t index);

 private:
  DummyStream(Buffer buffer, DType dtype) : buffer_(std::move(buffer)), dtype_(dtype) {}

  mutable Buffer buffer_;
  DType dtype_;
  mutable int64_t made_ = 0;
};

}  // namespace unspool
