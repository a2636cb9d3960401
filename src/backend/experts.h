// What a layer of experts is to a backend: which rows go to which of them, and the weights of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace unspool {

class Matrix;
class ProductInput;

// The experts of every row in the order of their rank: probability descending, then id ascending.
struct ExpertRoutes {
  int64_t rows = 0;
  int64_t top_k = 0;
  std::vector<int32_t> experts;  // [rows, top_k]
  std::vector<float> weights;    // likewise
};

// down(silu(gate x) * up x): gate and up [inner, hidden], down [hidden, inner], of one dtype and shape in all of a
// layer's experts.
struct ExpertWeights {
  const Matrix* gate = nullptr;
  const Matrix* up = nullptr;
  const Matrix* down = nullptr;
};

// Memory for a step's rows in the order of their experts, in the backend's own layout.
class ExpertScratch {
 public:
  virtual ~ExpertScratch() = default;
};

struct ExpertShape {
  int64_t max_rows = 0;
  int64_t top_k = 0;
  int64_t hidden = 0;
  int64_t inner = 0;
};

struct ExpertArgs {
  const ProductInput* x = nullptr;  // [routes.rows, hidden]
  const ExpertRoutes* routes = nullptr;
  std::span<const ExpertWeights> experts;
  // An expert that every row goes to, after all others, or null: its output [rows, hidden], and what the sigmoid makes
  // its weight of, [rows].
  const float* shared = nullptr;
  const float* shared_gate = nullptr;
};

}  // namespace unspool
