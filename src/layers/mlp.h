// The second half of a decoder layer: whatever it is made of, rows in and rows out.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "tensor/buffer.h"

namespace unspool {

// What a mixture of experts computes in beside an MLP's.
struct RoutingScratch {
  std::unique_ptr<ProductInput> unrounded;  // the rows as the norm leaves them, for the router
  ExpertRoutes routes;
  Buffer logits;       // [max_rows, num_experts]
  Buffer shared;       // [max_rows, hidden]
  Buffer shared_gate;  // [max_rows]
  std::unique_ptr<ExpertScratch> experts;
};

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
  // For one shape of expert: all layers have the same.
  Status reserve_routing(const ExpertShape& shape, int64_t num_experts);
  RoutingScratch& routing() const;  // reserved
  void release();

 private:
  Backend* backend_;
  int64_t max_rows_;
  DType weights_;
  MatmulPrecision precision_;
  std::vector<std::unique_ptr<ProductInput>> inputs_;
  std::unique_ptr<RoutingScratch> routing_;
};

class Mlp {
 public:
  virtual ~Mlp() = default;
  // Asks for what forward() computes in: at load, and after every release.
  virtual Status reserve(MlpScratch& scratch) const = 0;
  // Whether rows are routed to experts: then routing().unrounded has what x is made from, and route() has chosen by it.
  virtual bool routes() const { return false; }
  virtual void route(MlpScratch& /*scratch*/) const {}
  // y [x.rows(), hidden] = the result, or plus it with `accumulate`.
  virtual void forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const = 0;
};

}  // namespace unspool
