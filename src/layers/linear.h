// A projection: one matrix, made of one or several tensors stacked by rows, and perhaps a bias.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "layers/weight_set.h"

namespace unspool {

// One tensor of a stack: `prefix`.weight is [rows, columns], `prefix`.bias [rows].
struct LinearPart {
  std::string prefix;
  int64_t rows;
};

class Linear {
 public:
  // Adds the parts, one below the other, to the model's weights, which outlive it.
  static Result<Linear> add(WeightSet& weights, const std::vector<LinearPart>& parts, int64_t columns, bool bias);

  const Matrix& matrix() const { return *matrix_; }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  // y [x.rows(), rows], `stride` floats between rows; added to y's content with `accumulate`.
  void forward(Backend& backend, const ProductInput& x, float* y, int64_t stride, bool accumulate = false) const {
    backend.linear(x, *matrix_, bias(), accumulate, y, stride);
  }

 private:
  const Matrix* matrix_ = nullptr;
  std::span<const float> bias_;
};

}  // namespace unspool
