#include "backend/reference/experts_reference.h"

#include <algorithm>
#include <limits>

#include "backend/math.h"

namespace unspool::reference {

// The steps: the maximum; exp(x - maximum); sixteen partial sums by index mod 16, added in the tree 8, 4, 2, 1; each
// exponential divided by the sum. Then the largest, of equals the lowest id first. To normalize: their sum in that
// order, and a division each.
Route route(const float* logits, int64_t experts, int64_t top_k, bool normalize) {
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t e = 0; e < experts; ++e) most = std::max(most, logits[e]);
  std::vector<float> p(static_cast<size_t>(experts));
  float lanes[16] = {};
  for (int64_t e = 0; e < experts; ++e) {
    const float difference = logits[e] - most;
    p[static_cast<size_t>(e)] = contract_exp(difference);
    lanes[e % 16] = lanes[e % 16] + p[static_cast<size_t>(e)];
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  for (float& value : p) value = value / lanes[0];

  std::vector<int32_t> order(p.size());
  for (size_t e = 0; e < p.size(); ++e) order[e] = static_cast<int32_t>(e);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)]; });
  Route chosen;
  chosen.experts.assign(order.begin(), order.begin() + top_k);
  for (const int32_t e : chosen.experts) chosen.weights.push_back(p[static_cast<size_t>(e)]);
  if (!normalize) return chosen;
  float sum = chosen.weights[0];
  for (size_t i = 1; i < chosen.weights.size(); ++i) sum = sum + chosen.weights[i];
  for (float& weight : chosen.weights) weight = weight / sum;
  return chosen;
}

// Against bf16 weights, which are read in pairs: an odd k ends in a zero.
float dot_wide(const float* x, const float* w, int64_t k) {
  float acc = 0.0f;
  for (int64_t i = 0; i < k; ++i) acc = __builtin_fmaf(x[i], w[i], acc);
  return k % 2 == 0 ? acc : __builtin_fmaf(0.0f, 0.0f, acc);
}

float sigmoid(float x) {
  const float e = contract_exp(0.0f - x);
  const float denominator = 1.0f + e;
  return 1.0f / denominator;
}

// The first is a product, the others fused steps; the sum is added to y at the end.
void add_weighted(const std::vector<std::vector<float>>& outputs, const std::vector<float>& weights, float* y) {
  for (size_t j = 0; j < outputs[0].size(); ++j) {
    float sum = weights[0] * outputs[0][j];
    for (size_t i = 1; i < outputs.size(); ++i) sum = __builtin_fmaf(weights[i], outputs[i][j], sum);
    y[j] = y[j] + sum;
  }
}

}  // namespace unspool::reference
