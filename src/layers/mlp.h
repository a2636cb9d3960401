// The second half of a decoder layer: whatever it is made of, rows in and rows out.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"

namespace unspool {

// The activations that MLPs compute in. All layers of a model share them: each is there once, however many ask.
class MlpScratch {
 public:
  MlpScratch(Backend& backend, int64_t max_rows, DType weights, MatmulPrecision precision)
      : backend_(&backend), max_rows_(max_rows), weights_(weights), precision_(precision) {}

  Backend& backend() const { return *backend_; }
  int64_t max_rows() const { return max_rows_; }
  DType weights() const { return weights_; }
  MatmulPrecision precision() const { return precision_; }

  Status reserve_input(int64_t columns);
  ProductInput& input(int64_t columns) const;  // reserved
  void release() { inputs_.clear(); }

 private:
  Backend* backend_;
  int64_t max_rows_;
  DType weights_;
  MatmulPrecision precision_;
  std::vector<std::unique_ptr<ProductInput>> inputs_;
};

class Mlp {
 public:
  virtual ~Mlp() = default;
  // Asks for what forward() computes in: at load, and after every release.
  virtual Status reserve(MlpScratch& scratch) const = 0;
  // y [x.rows(), hidden] = the result, or plus it with `accumulate`.
  virtual void forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const = 0;
};

}  // namespace unspool
