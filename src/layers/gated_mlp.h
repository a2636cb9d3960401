// down(activation(gate(x)) * up(x)).
#pragma once

#include "layers/linear.h"
#include "layers/mlp.h"

namespace unspool {

class GatedMlp final : public Mlp {
 public:
  GatedMlp(const Linear& gate, const Linear& up, const Linear& down, Activation activation)
      : args_{.gate = &gate.matrix(),
              .up = &up.matrix(),
              .gate_bias = gate.bias(),
              .up_bias = up.bias(),
              .activation = activation},
        down_(down) {}
  // One matrix with the gates above the other projection.
  GatedMlp(const Linear& gate_up, const Linear& down, Activation activation)
      : args_{.gate = &gate_up.matrix(),
              .up = &gate_up.matrix(),
              .up_row = gate_up.matrix().rows() / 2,
              .activation = activation},
        down_(down) {}

  Status reserve(MlpScratch& scratch) const override { return scratch.reserve_input(down_.matrix().columns()); }
  void forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const override;

 private:
  GatedArgs args_;
  Linear down_;
};

}  // namespace unspool
