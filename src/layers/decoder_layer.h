// What a decoder layer is made of. A family builds it; CausalLm runs it.
#pragma once

#include <memory>

#include "layers/linear.h"
#include "layers/mlp.h"

namespace unspool {

struct Attention {
  Linear qkv, o;
  RmsNorm q_norm = {}, k_norm = {};  // as AttentionArgs has them
  int rotation = 0;                  // of the model's, which one; -1: none
  int64_t window = 0;                // keys that a token sees; 0: all
};

// x += attention(x), then x += mlp(x), each with a norm before it or after it, or both.
struct DecoderLayer {
  RmsNorm input_norm = {};
  Attention attention;
  RmsNorm attention_output_norm = {};
  RmsNorm mlp_norm = {};
  std::unique_ptr<Mlp> mlp;
  RmsNorm mlp_output_norm = {};
};

}  // namespace unspool
