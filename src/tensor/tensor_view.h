// A read-only look at a contiguous, row-major tensor that something else owns.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace unspool {

struct TensorView {
  const void* data = nullptr;  // no alignment is promised: tensors of a file start where the file put them
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t num_elements() const { return shape.num_elements(); }
  size_t size_bytes() const {
    return static_cast<size_t>(shape.num_elements()) * static_cast<size_t>(dtype_bits(dtype)) / 8;
  }
};

}  // namespace unspool
