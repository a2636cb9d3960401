// Routing and the sum over experts, as docs/numerics.md has them.
#pragma once

#include <cstdint>
#include <vector>

namespace unspool::reference {

struct Route {
  std::vector<int32_t> experts;  // in the order of their rank
  std::vector<float> weights;
};
Route route(const float* logits, int64_t experts, int64_t top_k, bool normalize);

// x w^T without rounding x: the float32 chain. w is what is stored, as floats.
float dot_wide(const float* x, const float* w, int64_t k);

float sigmoid(float x);

// y = y + the sum of weight times output over the rows given, in their order.
void add_weighted(const std::vector<std::vector<float>>& outputs, const std::vector<float>& weights, float* y);

}  // namespace unspool::reference
