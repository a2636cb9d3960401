// A projection: one matrix, made of one or several tensors stacked by rows, and perhaps a bias.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "weights/tensor_loader.h"

namespace unspool {

// Tells how far loading has come, in bytes of the checkpoint.
using LoadProgress = std::function<void(size_t bytes)>;

// What a layer needs to load itself.
struct LayerLoader {
  Backend& backend;
  WeightLoader& weights;
  DType dtype;  // the served one
  const LoadProgress& progress;

  // A one-dimensional tensor as floats.
  Result<std::vector<float>> vector(const std::string& name, int64_t size);
};

// One tensor of a stack: `prefix`.weight is [rows, columns], `prefix`.bias [rows].
struct LinearPart {
  std::string prefix;
  int64_t rows;
};

class Linear {
 public:
  // Loads the parts one below the other. Errors name the tensor.
  static Result<Linear> load(LayerLoader& loader, const std::vector<LinearPart>& parts, int64_t columns, bool bias);

  const Matrix& matrix() const { return *matrix_; }
  const float* bias() const { return bias_.empty() ? nullptr : bias_.data(); }
  // y [x.rows(), rows], `stride` floats between rows; added to y's content with `accumulate`.
  void forward(Backend& backend, const ProductInput& x, float* y, int64_t stride, bool accumulate = false) const {
    backend.linear(x, *matrix_, bias(), accumulate, y, stride);
  }

 private:
  std::unique_ptr<Matrix> matrix_;
  std::vector<float> bias_;
};

}  // namespace unspool
