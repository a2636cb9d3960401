#include "layers/gated_mlp.h"

namespace unspool {

void GatedMlp::forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const {
  ProductInput& gated = scratch.input(down_.matrix().columns());
  scratch.backend().gated(x, args_, gated);
  down_.forward(scratch.backend(), gated, y, down_.matrix().rows(), accumulate);
}

}  // namespace unspool
