// What a decoder layer is made of. A family builds it; CausalLm runs it.
#pragma once

#include <memory>

#include "layers/linear.h"
#include "layers/mlp.h"
#include "layers/rms_norm.h"

namespace unspool {

struct Attention {
  Linear qkv, o;
  RmsNorm q_norm, k_norm;  // over each head, before the rotation
  int rotation = 0;        // of the model's, which one; -1: none
};

struct DecoderLayer {
  RmsNorm input_norm;
  Attention attention;
  RmsNorm mlp_norm;
  std::unique_ptr<Mlp> mlp;
};

}  // namespace unspool
