#include "backend/cpu/packed_input.h"

#include <cstring>

#include "base/check.h"

namespace unspool::cpu {

Result<std::unique_ptr<PackedInput>> PackedInput::create(int64_t max_rows, int64_t columns, DType weights,
                                                         MatmulPrecision precision) {
  const bool pairs = weights == DType::kBFloat16;
  const bool split = pairs && precision == MatmulPrecision::kBf16x2;
  std::unique_ptr<PackedInput> input(new PackedInput(max_rows, columns, pairs, split));
  UNSPOOL_ASSIGN(input->buffer_,
                 Buffer::allocate(static_cast<size_t>((split ? 2 : 1) * max_rows * input->row_bytes())));
  return input;
}

void PackedInput::set_rows(int64_t rows) {
  UNSPOOL_CHECK(rows >= 0 && rows <= max_rows_, "{} rows in an input of {}", rows, max_rows_);
  rows_ = rows;
}

void PackedInput::put(const KernelTable& kernels, int64_t r, int64_t column, const float* x, int64_t n) {
  unsigned char* base = buffer_.as<unsigned char>() + r * row_bytes();
  if (!pairs_) {
    std::memcpy(reinterpret_cast<float*>(base) + column, x, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  auto* hi = reinterpret_cast<uint16_t*>(base) + column;
  if (split_)
    kernels.to_bf16x2(x, n, hi, hi + max_rows_ * row_pairs() * 2);
  else
    kernels.to_bf16(x, n, hi);
}

void PackedInput::copy_row(int64_t r, const PackedInput& from, int64_t source) {
  UNSPOOL_CHECK(from.columns_ == columns_ && from.pairs_ == pairs_ && from.split_ == split_ && source < from.rows_,
                "row {} of {}", source, from.rows_);
  auto* to = buffer_.as<unsigned char>();
  const auto size = static_cast<size_t>(row_bytes());
  std::memcpy(to + r * row_bytes(), from.row(source), size);
  if (split_) std::memcpy(to + (max_rows_ + r) * row_bytes(), from.low_row(source), size);
}

}  // namespace unspool::cpu
