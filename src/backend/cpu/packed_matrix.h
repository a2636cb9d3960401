// Weights in panels of 16 output columns: [panel][step][16], a step being a pair of k for bf16 and one k otherwise. One
// layout serves one row and many; every panel is read front to back.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/kernel_table.h"
#include "tensor/buffer.h"

namespace unspool::cpu {

Stored stored_as(DType dtype);  // checked: float32, bfloat16 or float16

class PackedMatrix final : public Matrix {
 public:
  static Result<std::unique_ptr<PackedMatrix>> create(int64_t rows, int64_t columns, DType dtype);

  size_t size_bytes() const override { return static_cast<size_t>(panels() * panel_bytes_); }
  void release() override { buffer_.release(); }
  Status allocate() override;
  std::span<std::byte> storage() override { return {buffer_.as<std::byte>(), buffer_.size_bytes()}; }
  void read_rows(int64_t first, int64_t count, void* out) const override;
  void swap_storage(Matrix& other) override;
  RowLayout row_layout(int64_t row) const override;

  Stored stored() const { return stored_; }
  int64_t steps() const { return steps_; }
  int64_t panel_bytes() const { return panel_bytes_; }
  int64_t panels() const { return (rows_ + kPanel - 1) / kPanel; }
  const void* panel(int64_t index) const { return buffer_.as<unsigned char>() + index * panel_bytes_; }
  const void* panel_or_null(int64_t index) const { return index < 0 ? nullptr : panel(index); }

  // Rows [first, last) of `source`, whose row 0 is this matrix's row `first_row`: one call a panel may run beside
  // others of other panels.
  void pack_panel(const KernelTable& kernels, int64_t panel, int64_t first_row, const TensorView& source);
  // The same from a matrix of the same shape and type: of rows [first, last), those that lie in the panel.
  void copy_panel(int64_t panel, const PackedMatrix& from, int64_t first, int64_t last);
  // Of the panel's rows below `last` alone, whatever fills the lanes behind them.
  Hash128 hash_panel(int64_t panel, int64_t last) const;
  // One row as floats.
  void read_row(int64_t row, float* y) const;

 private:
  PackedMatrix(int64_t rows, int64_t columns, DType dtype);
  Buffer buffer_;
  Stored stored_;
  int64_t steps_;
  int64_t panel_bytes_;
};

}  // namespace unspool::cpu
