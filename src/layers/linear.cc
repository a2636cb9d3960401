#include "layers/linear.h"

namespace unspool {

Result<Linear> Linear::add(WeightSet& weights, const std::vector<LinearPart>& parts, int64_t columns, bool bias) {
  std::vector<WeightSet::Part> matrices, biases;
  for (const LinearPart& part : parts) {
    matrices.push_back({part.prefix + ".weight", part.rows});
    biases.push_back({part.prefix + ".bias", part.rows});
  }
  Linear linear;
  UNSPOOL_ASSIGN(linear.matrix_, weights.add_matrix(matrices, columns));
  if (bias) linear.bias_ = weights.add_vector(biases);
  return linear;
}

}  // namespace unspool
