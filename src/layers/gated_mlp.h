// down(silu(gate(x)) * up(x)).
#pragma once

#include "layers/linear.h"
#include "layers/mlp.h"

namespace unspool {

class GatedMlp final : public Mlp {
 public:
  GatedMlp(Linear gate, Linear up, Linear down) : gate_(gate), up_(up), down_(down) {}

  Status reserve(MlpScratch& scratch) const override { return scratch.reserve_input(down_.matrix().columns()); }
  void forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const override;

 private:
  Linear gate_, up_, down_;
};

}  // namespace unspool
