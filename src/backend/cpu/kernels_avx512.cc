// The kernels for AVX-512 F, BW, DQ and VL, products by FMA. Compiled with its flags: nothing here may include a header
// with inline functions of others.
#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernel_table.h"

namespace unspool::cpu {
namespace avx512 {

// clang-format off: the vector type, then what is made of it
#include "backend/cpu/kernels/vec_avx512.inl"
#include "backend/cpu/kernels/table.inl"
// clang-format on

}  // namespace avx512

const KernelTable& avx512_kernels() {
  static constexpr KernelTable kTable = avx512::make_table("avx512");
  return kTable;
}

}  // namespace unspool::cpu
