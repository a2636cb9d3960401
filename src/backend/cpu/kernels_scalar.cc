// The kernels for no instruction set in particular. Compiled with its flags: nothing here may include a header with
// inline functions of others.
#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/kernel_table.h"

namespace unspool::cpu {
namespace scalar {

// clang-format off: the vector type, then what is made of it
#include "backend/cpu/kernels/vec_scalar.inl"
#include "backend/cpu/kernels/table.inl"
// clang-format on

}  // namespace scalar

const KernelTable& scalar_kernels() {
  static constexpr KernelTable kTable = scalar::make_table("scalar");
  return kTable;
}

}  // namespace unspool::cpu
