#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tensor/cast.h"
#include "tensor/convert.h"

namespace unspool::cpu {
namespace {

int64_t step_bytes(Stored stored) {
  return stored == Stored::kF16 ? 32 : 64;
}

// Lanes [begin, end) of a panel, where the rows of two tensors, or of none, share it.
void pack_lanes(const unsigned char* rows, DType dtype, int64_t columns, Stored stored, int64_t begin, int64_t end,
                void* panel) {
  const auto put = [&](auto element, int64_t group, DType as) {
    std::vector<decltype(element)> row(static_cast<size_t>(columns));
    auto* out = static_cast<decltype(element)*>(panel);
    for (int64_t lane = begin; lane < end; ++lane) {
      cast_elements(rows + (lane - begin) * columns * dtype_size(dtype), dtype, columns, as, row.data());
      for (int64_t k = 0; k < columns; ++k)
        out[(k / group * kPanel + lane) * group + k % group] = row[static_cast<size_t>(k)];
    }
  };
  switch (stored) {
    case Stored::kBf16:
      return put(uint16_t{}, 2, DType::kBFloat16);
    case Stored::kF16:
      return put(uint16_t{}, 1, DType::kFloat16);
    case Stored::kF32:
      return put(float{}, 1, DType::kFloat32);
  }
}

}  // namespace

Stored stored_as(DType dtype) {
  UNSPOOL_CHECK(is_float_weight(dtype), "expected float32, bfloat16 or float16, got {}", torch_name(dtype));
  return dtype == DType::kBFloat16 ? Stored::kBf16 : dtype == DType::kFloat16 ? Stored::kF16 : Stored::kF32;
}

PackedMatrix::PackedMatrix(int64_t rows, int64_t columns, DType dtype)
    : Matrix(rows, columns, dtype), stored_(stored_as(dtype)) {
  steps_ = stored_ == Stored::kBf16 ? (columns + 1) / 2 : columns;
  panel_bytes_ = steps_ * step_bytes(stored_);
}

Result<std::unique_ptr<PackedMatrix>> PackedMatrix::create(int64_t rows, int64_t columns, DType dtype) {
  std::unique_ptr<PackedMatrix> matrix(new PackedMatrix(rows, columns, dtype));
  UNSPOOL_TRY(matrix->allocate());
  return matrix;
}

Status PackedMatrix::allocate() {
  UNSPOOL_ASSIGN(buffer_, Buffer::allocate(size_bytes()));
  return {};
}

void PackedMatrix::pack_panel(const KernelTable& kernels, int64_t panel, int64_t first_row, const TensorView& source) {
  const int64_t begin = std::max(panel * kPanel, first_row),
                end = std::min((panel + 1) * kPanel, first_row + source.shape[0]);
  if (begin >= end) return;
  const auto* rows =
      static_cast<const unsigned char*>(source.data) + (begin - first_row) * columns_ * dtype_size(source.dtype);
  void* out = buffer_.as<unsigned char>() + panel * panel_bytes_;
  // A subnormal that is stored as it came is kept: the products flush it, as they do a converted one.
  if (end - begin == kPanel) {
    const auto from = static_cast<int>(stored_as(source.dtype)), to = static_cast<int>(stored_);
    return kernels.pack[from][to](rows, columns_, out);
  }
  pack_lanes(rows, source.dtype, columns_, stored_, begin - panel * kPanel, end - panel * kPanel, out);
}

void PackedMatrix::copy_panel(int64_t panel, const PackedMatrix& from, int64_t first, int64_t last) {
  const int64_t begin = std::max(panel * kPanel, first), end = std::min((panel + 1) * kPanel, last);
  unsigned char* to = buffer_.as<unsigned char>() + panel * panel_bytes_;
  const auto* source = static_cast<const unsigned char*>(from.panel(panel));
  if (end - begin == kPanel) {
    std::memcpy(to, source, static_cast<size_t>(panel_bytes_));
    return;
  }
  if (begin >= end) return;
  const int64_t step = step_bytes(stored_), lane = step / kPanel, offset = (begin - panel * kPanel) * lane;
  for (int64_t s = 0; s < steps_; ++s)
    std::memcpy(to + s * step + offset, source + s * step + offset, static_cast<size_t>((end - begin) * lane));
}

Hash128 PackedMatrix::hash_panel(int64_t index, int64_t last) const {
  const auto size = static_cast<size_t>(panel_bytes_);
  const int64_t lanes = std::min(last - index * kPanel, int64_t{kPanel});
  if (lanes == kPanel) return hash128(panel(index), size, 0);
  const int64_t step = step_bytes(stored_);
  std::vector<unsigned char> masked(size);
  for (int64_t s = 0; s < steps_; ++s)
    std::memcpy(masked.data() + s * step, static_cast<const unsigned char*>(panel(index)) + s * step,
                static_cast<size_t>(lanes * step / kPanel));
  return hash128(masked.data(), size, 0);
}

void PackedMatrix::swap_storage(Matrix& other) {
  auto& packed = static_cast<PackedMatrix&>(other);
  UNSPOOL_CHECK(packed.rows_ == rows_ && packed.columns_ == columns_ && packed.stored_ == stored_,
                "[{}, {}] for [{}, {}]", packed.rows_, packed.columns_, rows_, columns_);
  std::swap(buffer_, packed.buffer_);
}

RowLayout PackedMatrix::row_layout(int64_t row) const {
  const int64_t bits = stored_ == Stored::kBf16 ? 1 : 0;  // pairs lie side by side
  return {(row / kPanel * steps_ * kPanel + row % kPanel) << bits, bits, int64_t{kPanel} << bits};
}

void PackedMatrix::read_row(int64_t row, float* y) const {
  const void* in = panel(row / kPanel);
  const int64_t lane = row % kPanel;
  switch (stored_) {
    case Stored::kBf16:
      for (int64_t k = 0; k < columns_; ++k)
        y[k] = bf16_to_float(static_cast<const uint16_t*>(in)[(k / 2 * kPanel + lane) * 2 + k % 2]);
      break;
    case Stored::kF16:
      for (int64_t k = 0; k < columns_; ++k) y[k] = f16_to_float(static_cast<const uint16_t*>(in)[k * kPanel + lane]);
      break;
    case Stored::kF32:
      for (int64_t k = 0; k < columns_; ++k) y[k] = static_cast<const float*>(in)[k * kPanel + lane];
      break;
  }
}

void PackedMatrix::read_rows(int64_t first, int64_t count, void* out) const {
  UNSPOOL_CHECK(first >= 0 && count >= 0 && first + count <= rows_ && !buffer_.empty(), "rows {} to {} of {}", first,
                first + count, rows_);
  const auto copy = [&](auto element, int64_t step) {  // elements of a lane's step lie side by side
    using Element = decltype(element);
    auto* to = static_cast<Element*>(out);
    for (int64_t row = first; row < first + count; ++row) {
      const auto* lane = static_cast<const Element*>(panel(row / kPanel)) + row % kPanel * step;
      for (int64_t k = 0; k < columns_; ++k) *to++ = lane[k / step * kPanel * step + k % step];
    }
  };
  switch (stored_) {
    case Stored::kBf16:
      return copy(uint16_t{}, 2);
    case Stored::kF16:
      return copy(uint16_t{}, 1);
    case Stored::kF32:
      return copy(float{}, 1);
  }
}

}  // namespace unspool::cpu
