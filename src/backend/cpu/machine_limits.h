// What the machine gives at best, measured in the process that holds its figures against it.
#pragma once

#include "backend/cpu/kernel_table.h"
#include "threading/thread_pool.h"

namespace unspool::cpu {

// A second, of all the pool's threads together.
struct MachineLimits {
  double bf16_operations = 0;
  double f32_operations = 0;
  double read_bytes = 0;
};

// The best of several tries, since neighbours only ever take away; about a second.
MachineLimits measure_limits(ThreadPool& pool, const KernelTable& kernels);

}  // namespace unspool::cpu
