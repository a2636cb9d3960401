#include "layers/gated_mlp.h"

namespace unspool {

void GatedMlp::forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const {
  Backend& backend = scratch.backend();
  ProductInput& gated = scratch.input(down_.matrix().columns());
  backend.gated_silu(x, gate_.matrix(), up_.matrix(), gate_.bias(), up_.bias(), gated);
  down_.forward(backend, gated, y, down_.matrix().rows(), accumulate);
}

}  // namespace unspool
