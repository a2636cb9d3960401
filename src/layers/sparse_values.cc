#include "layers/sparse_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tensor/cast.h"
#include "weights/quote.h"

namespace unspool {
namespace {

// Sorts by index; of equal ones the last in the order they came is kept.
void sort_by_index(SparseValues& sparse) {
  std::vector<uint64_t> keys(sparse.size());  // index, then place
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<uint64_t>(sparse.indices[i]) << 32 | i;
  std::sort(keys.begin(), keys.end());
  SparseValues sorted{.indices = {}, .values = {}, .dtype = sparse.dtype};
  sorted.indices.reserve(keys.size());
  sorted.values.reserve(sparse.values.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + 1 < keys.size() && keys[i] >> 32 == keys[i + 1] >> 32) continue;
    sorted.indices.push_back(static_cast<int32_t>(keys[i] >> 32));
    const auto value = sparse.value(keys[i] & 0xffffffffu);
    sorted.values.insert(sorted.values.end(), value.begin(), value.end());
  }
  sparse = std::move(sorted);
}

}  // namespace

std::vector<uint32_t> SparseValues::positions(const Parameter& parameter, int64_t* base) const {
  const int64_t columns = parameter.shape[1];
  // Of the first row of the tensor's first group of rows; no row of the tensor starts before it.
  *base = parameter.matrix->row_layout(parameter.first_row).start;
  std::vector<uint32_t> found(size());
  RowLayout layout{};
  int64_t row_begin = 0, row_end = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (indices[i] >= row_end) {
      const int64_t row = indices[i] / columns;
      row_begin = row * columns;
      row_end = row_begin + columns;
      layout = parameter.matrix->row_layout(parameter.first_row + row);
      layout.start -= *base;
    }
    found[i] = static_cast<uint32_t>(layout.position(indices[i] - row_begin));
  }
  return found;
}

Result<SparseValues> read_sparse(std::string_view name, std::span<const std::byte> bytes, int64_t count, DType dtype,
                                 DType served, int64_t num_elements) {
  const auto n = static_cast<size_t>(count);
  SparseValues sparse{.indices = std::vector<int32_t>(n),
                      .values = std::vector<std::byte>(n * static_cast<size_t>(dtype_size(served))),
                      .dtype = served};
  if (n == 0) return sparse;
  std::memcpy(sparse.indices.data(), bytes.data(), n * sizeof(int32_t));
  bool ascending = true;
  int64_t before = -1;
  for (size_t i = 0; i < n; ++i) {
    const int32_t index = sparse.indices[i];
    if (index < 0 || index >= num_elements) {
      return invalid_argument(fmt::format("tensor {}: update {}: expected an index of 0 to {}, got {}",
                                          quote_name(name), i, num_elements - 1, index));
    }
    ascending = ascending && index > before;
    before = index;
  }
  cast_elements(bytes.data() + n * sizeof(int32_t), dtype, count, served, sparse.values.data());
  if (!ascending) sort_by_index(sparse);
  return sparse;
}

SparseValues overlay(const SparseValues& below, const SparseValues& above) {
  if (below.empty()) return above;
  SparseValues both{.indices = {}, .values = {}, .dtype = above.dtype};
  both.indices.reserve(below.size() + above.size());
  const auto take = [&both](const SparseValues& from, size_t i) {
    both.indices.push_back(from.indices[i]);
    both.values.insert(both.values.end(), from.value(i).begin(), from.value(i).end());
  };
  size_t b = 0;
  for (size_t a = 0; a < above.size(); ++a) {
    for (; b < below.size() && below.indices[b] < above.indices[a]; ++b) take(below, b);
    if (b < below.size() && below.indices[b] == above.indices[a]) ++b;
    take(above, a);
  }
  for (; b < below.size(); ++b) take(below, b);
  return both;
}

}  // namespace unspool
