// The left side of products on the CPU: rows of bf16 (with a low part for bf16x2), or of floats: for wider weights, and
// for bf16 ones where the input is not to be rounded.
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
  // Between rows, in the steps of a product with weights stored like that: pairs of bf16, pairs of floats, or floats.
  int64_t row_steps(Stored weights) const { return weights == Stored::kBf16 ? row_pairs() : 2 * row_pairs(); }
  const void* row(int64_t r) const { return buffer_.as<unsigned char>() + r * row_bytes(); }
  const void* low_row(int64_t r) const { return buffer_.as<unsigned char>() + (max_rows_ + r) * row_bytes(); }
  void set_rows(int64_t rows);  // checked against max_rows

  // Writes columns [column, column + n) of row r.
  void put(const KernelTable& kernels, int64_t r, int64_t column, const float* x, int64_t n);
  // Row r becomes row `source` of an input of the same form.
  void copy_row(int64_t r, const PackedInput& from, int64_t source);

 private:
  PackedInput(int64_t max_rows, int64_t columns, bool pairs, bool split)
      : ProductInput(max_rows, columns), pairs_(pairs), split_(split) {}
  int64_t row_pairs() const { return (columns_ + 1) / 2; }
  int64_t row_bytes() const { return row_pairs() * (pairs_ ? 4 : 8); }

  Buffer buffer_;  // zeroed by the kernel: the second half of an odd row's last pair stays zero
  bool pairs_, split_;
};

}  // namespace unspool::cpu
