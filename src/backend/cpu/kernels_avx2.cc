// The kernels for AVX2, FMA and F16C. Compiled with its flags: nothing here may include a header with inline functions
// of others.
#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernel_table.h"

namespace unspool::cpu {
namespace avx2 {

// clang-format off: the vector type, then what is made of it
#include "backend/cpu/kernels/vec_avx2.inl"
#include "backend/cpu/kernels/table.inl"
// clang-format on

}  // namespace avx2

const KernelTable& avx2_kernels() {
  static constexpr KernelTable kTable = avx2::make_table("avx2");
  return kTable;
}

}  // namespace unspool::cpu
