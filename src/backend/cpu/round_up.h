// Sizes in whole panels. Not for the kernels' files, which may hold no inline function of others (kernel_table.h).
#pragma once

#include <cstdint>

#include "backend/cpu/kernel_table.h"

namespace unspool::cpu {

// The least multiple of kPanel that is at least n.
constexpr int64_t round_up_to_panel(int64_t n) {
  return (n + kPanel - 1) / kPanel * kPanel;
}

}  // namespace unspool::cpu
