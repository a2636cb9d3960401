// The kernels for AVX-512 with VDPBF16PS. Compiled with its flags: nothing here may include a header with inline
// functions of others.
#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernel_table.h"

#define UNSPOOL_NATIVE_BF16 1

namespace unspool::cpu {
namespace avx512_bf16 {

// clang-format off: the vector type, then what is made of it
#include "backend/cpu/kernels/vec_avx512.inl"
#include "backend/cpu/kernels/table.inl"
// clang-format on

}  // namespace avx512_bf16

const KernelTable& avx512_bf16_kernels() {
  static constexpr KernelTable kTable = avx512_bf16::make_table("avx512_bf16");
  return kTable;
}

}  // namespace unspool::cpu
