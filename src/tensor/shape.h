// The extents of a tensor, held inline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace unspool {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // rank 0: a scalar, one element
  // Checks that there are at most kMaxRank extents and that none is negative.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  // Negative axes count from the back. Checked.
  int64_t dim(int axis) const;
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  // nullopt where the product does not fit an int64. With a zero extent the product is zero, whatever the others are.
  std::optional<int64_t> checked_num_elements() const;
  // The same for shapes that are ours; an overflow is a failed check.
  int64_t num_elements() const;
  std::string to_string() const;  // "[2, 3]"

  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};  // zero past rank_, so that == compares the whole array
  int rank_ = 0;
};

}  // namespace unspool
