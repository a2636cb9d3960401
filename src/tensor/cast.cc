#include "tensor/cast.h"

#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"

namespace unspool {
namespace {

template <class T>
T element(const void* base, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const unsigned char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float as_float(const void* base, DType dtype, int64_t index) {
  if (dtype == DType::kFloat32) return element<float>(base, index);
  const auto half = element<uint16_t>(base, index);
  return dtype == DType::kBFloat16 ? bf16_to_float(half) : f16_to_float(half);
}

}  // namespace

void cast_elements(const void* from, DType from_dtype, int64_t count, DType to_dtype, void* to) {
  UNSPOOL_CHECK(is_float_weight(from_dtype) && is_float_weight(to_dtype), "{} to {}", torch_name(from_dtype),
                torch_name(to_dtype));
  if (from_dtype == to_dtype) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count * dtype_size(to_dtype)));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const float value = as_float(from, from_dtype, i);
    if (to_dtype == DType::kFloat32)
      static_cast<float*>(to)[i] = value;
    else
      static_cast<uint16_t*>(to)[i] = to_dtype == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
  }
}

}  // namespace unspool
