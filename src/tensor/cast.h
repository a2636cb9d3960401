// Elements from one of the weights' types to another, as loading rounds them.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace unspool {

// to[i] = from[i], i < count: float32, bfloat16 or float16 on either side; the same type keeps its bits. `from` may be
// unaligned, `to` is not.
void cast_elements(const void* from, DType from_dtype, int64_t count, DType to_dtype, void* to);

}  // namespace unspool
