// Kernel tables to test, and right sides of products packed by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "../support/bits.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernel_table.h"
#include "backend/reference/reference.h"
#include "tensor/convert.h"
#include "threading/thread_pool.h"

namespace unspool::cpu {

// Of every instruction set that this processor has, the scalar one last.
inline const std::vector<const KernelTable*>& tables() {
  static const std::vector<const KernelTable*> kTables = [] {
    std::vector<const KernelTable*> all;
    for (const std::string& name : available_instruction_sets()) all.push_back(*select_kernels(name));
    return all;
  }();
  return kTables;
}

// Row counts around every tile size (docs/numerics.md).
inline constexpr int64_t kRowCounts[] = {1,  2,  3,  5,  6,   7,   8,   15,  16,  17, 31,
                                         32, 33, 63, 64, 127, 128, 255, 256, 257, 512};

inline DType dtype_of(Stored stored) {
  return stored == Stored::kBf16 ? DType::kBFloat16 : stored == Stored::kF16 ? DType::kFloat16 : DType::kFloat32;
}
inline constexpr Stored kAllStored[] = {Stored::kBf16, Stored::kF16, Stored::kF32};

// Both sides of a product of x [rows, k] and w [16 * panels, k], in the forms that ProductArgs asks for.
struct PackedProduct {
  PackedProduct(const std::vector<float>& x, const std::vector<float>& w, int64_t k, Stored stored)
      : stored(stored),
        steps(stored == Stored::kBf16 ? (k + 1) / 2 : k),
        panels(static_cast<int>(static_cast<int64_t>(w.size()) / k / kPanel)) {
    const auto rows = static_cast<int64_t>(x.size()) / k;
    const int64_t step_bytes = stored == Stored::kF16 ? 32 : 64;
    a.assign(static_cast<size_t>(rows * steps * 4), 0);
    b.assign(static_cast<size_t>(panels * steps * step_bytes), 0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < k; ++i) {
        const float value = x[static_cast<size_t>(r * k + i)];
        if (stored == Stored::kBf16)
          put(a, (r * steps * 2 + i), float_to_bf16(value));
        else
          put(a, r * steps + i, value);
      }
    for (int64_t j = 0; j < panels * kPanel; ++j)
      for (int64_t i = 0; i < k; ++i) {
        const float value = w[static_cast<size_t>(j * k + i)];
        const int64_t panel = j / kPanel * steps, lane = j % kPanel;
        if (stored == Stored::kBf16)
          put(b, ((panel + i / 2) * kPanel + lane) * 2 + i % 2, float_to_bf16(value));
        else if (stored == Stored::kF16)
          put(b, (panel + i) * kPanel + lane, float_to_f16(value));
        else
          put(b, (panel + i) * kPanel + lane, value);
      }
    for (int p = 0; p < panels; ++p) panel_starts.push_back(b.data() + p * steps * step_bytes);
  }

  // Rows [first, first + rows).
  std::vector<float> run(const KernelTable& table, int64_t first, int64_t rows) const {
    std::vector<float> c(static_cast<size_t>(rows * panels * kPanel), -1.0f);
    ProductArgs args{};
    args.a = a.data() + first * steps * 4;
    args.a_stride = steps;
    args.rows = rows;
    args.b = panel_starts.data();
    args.b_stride = 1;
    args.steps = args.steps_per_chunk = steps;
    args.panels = panels;
    args.c = c.data();
    args.c_stride = panels * kPanel;
    table.product[static_cast<int>(stored)](args);
    return c;
  }

  template <class T>
  static void put(std::vector<unsigned char>& to, int64_t index, T value) {
    std::memcpy(to.data() + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }

  Stored stored;
  int64_t steps;
  int panels;
  std::vector<unsigned char> a, b;
  std::vector<const void*> panel_starts;
};

}  // namespace unspool::cpu
