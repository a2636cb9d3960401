#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

namespace unspool {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  UNSPOOL_CHECK(dims.size() <= kMaxRank, "expected at most {} extents, got {}", kMaxRank, dims.size());
  for (const int64_t extent : dims) UNSPOOL_CHECK(extent >= 0, "expected no negative extent, got {}", extent);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

int64_t Shape::dim(int axis) const {
  UNSPOOL_CHECK(axis >= -rank_ && axis < rank_, "axis {} of {}", axis, to_string());
  return dims_[static_cast<size_t>(axis < 0 ? axis + rank_ : axis)];
}

std::optional<int64_t> Shape::checked_num_elements() const {
  if (std::find(dims().begin(), dims().end(), 0) != dims().end()) return 0;
  int64_t product = 1;
  for (const int64_t extent : dims()) {
    if (__builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return product;
}

int64_t Shape::num_elements() const {
  const std::optional<int64_t> count = checked_num_elements();
  UNSPOOL_CHECK(count.has_value(), "the elements of {} overflow", to_string());
  return *count;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(dims(), ", "));
}

}  // namespace unspool
