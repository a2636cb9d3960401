// The left side of products on the CPU: rows of bf16 (with a low part for bf16x2), or of floats for wider weights.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/kernel_table.h"
#include "tensor/buffer.h"

namespace unspool::cpu {

class PackedInput final : public ProductInput {
 public:
  static Result<std::unique_ptr<PackedInput>> create(int64_t max_rows, int64_t columns, DType weights,
                                                     MatmulPrecision precision);

  bool pairs() const { return pairs_; }
  bool split() const { return split_; }
  // In a product's steps: pairs, or floats.
  int64_t row_steps() const { return pairs_ ? (columns_ + 1) / 2 : columns_; }
  const void* row(int64_t r) const { return buffer_.as<unsigned char>() + r * row_bytes(); }
  const void* low_row(int64_t r) const { return buffer_.as<unsigned char>() + (max_rows_ + r) * row_bytes(); }
  void set_rows(int64_t rows);  // checked against max_rows

  // Writes columns [column, column + n) of row r.
  void put(const KernelTable& kernels, int64_t r, int64_t column, const float* x, int64_t n);

 private:
  PackedInput(int64_t max_rows, int64_t columns, bool pairs, bool split)
      : ProductInput(max_rows, columns), pairs_(pairs), split_(split) {}
  int64_t row_bytes() const { return row_steps() * 4; }

  Buffer buffer_;  // zeroed by the kernel: the second half of an odd row's last pair stays zero
  bool pairs_, split_;
};

}  // namespace unspool::cpu
