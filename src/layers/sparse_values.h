// The sparse form of a tensor's update: some of its elements, by their flat index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "layers/weight_set.h"
#include "tensor/dtype.h"

namespace unspool {

struct SparseValues {
  std::vector<int32_t> indices;   // ascending, each once
  std::vector<std::byte> values;  // [indices.size()] of `dtype`
  DType dtype = DType::kFloat32;

  bool empty() const { return indices.empty(); }
  size_t size() const { return indices.size(); }
  std::span<const std::byte> value(size_t i) const {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    return std::span(values).subspan(i * size, size);
  }
  // Where they lie in a parameter's matrix, counted from `base`, which it gives too.
  std::vector<uint32_t> positions(const Parameter& parameter, int64_t* base) const;
};

// int32 [count], then `count` values of `dtype`, cast to `served`. Of an index that comes more than once the last value
// counts. The bytes may change while they are read: what was checked is what is returned.
Result<SparseValues> read_sparse(std::string_view name, std::span<const std::byte> bytes, int64_t count, DType dtype,
                                 DType served, int64_t num_elements);

// Both; where they meet, `above`.
SparseValues overlay(const SparseValues& below, const SparseValues& above);

}  // namespace unspool
