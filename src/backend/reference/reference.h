// The arithmetic contract (docs/numerics.md) written as plainly as can be, one output element after another: the oracle
// that every kernel equals bit for bit. It shares no code with the kernels but the scalar conversions and exponential.
// The caller's MXCSR says whether subnormals are flushed: hold a FloatModeGuard.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"

namespace unspool::reference {

// What a tensor of that dtype holds of a value: float32, bfloat16 or float16.
float stored_value(float value, DType dtype);

// The chain over ascending k from +0. Of bf16 bits, in pairs, the odd one first; an odd k ends in a zero.
float chain_bf16(const uint16_t* x, const uint16_t* w, int64_t k);
float chain_f32(const float* x, const float* w, int64_t k);

// hi = bf16(x), lo = bf16(x - hi).
struct SplitBf16 {
  uint16_t hi, lo;
};
SplitBf16 split_bf16(float x);

// The product of activations and weights that are stored as `dtype`: for bf16 both are rounded to it, and kBf16x2 adds
// the low half's chain to the high half's; else the float32 chain over the weights as stored.
float dot(const float* x, const float* w, int64_t k, DType dtype, MatmulPrecision precision);

struct LinearArgs {
  const float* x;  // [rows, columns]
  int64_t rows;
  int64_t columns;
  const float* w;  // [outputs, columns]
  int64_t outputs;
  DType dtype;
  MatmulPrecision precision = MatmulPrecision::kBf16;
  const float* bias = nullptr;      // [outputs]
  const float* residual = nullptr;  // [rows, outputs]
};
// y [rows, outputs]: the product, then plus bias, then plus residual, one rounding each.
void linear(const LinearArgs& args, float* y);

// y = x / sqrt(mean(x^2) + eps) * (weight + offset). `weight` may be null (1).
void rms_norm(const float* x, const float* weight, float offset, float eps, int64_t n, float* y);
float silu(float x);
// y = silu(gate + gate_bias) * (up + up_bias); null biases are left out.
void silu_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t n, float* y);
float gelu_tanh(float x);
void gelu_tanh_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t n,
                   float* y);
// cap * tanh(x / cap).
float softcap(float x, float cap);
// In place: x[j] and x[half + j] turned by the angle whose cosine and sine are at j.
void rotate(float* x, const float* cos, const float* sin, int64_t half);

// One query row over the keys that it sees: positions [first, visible).
struct AttentionRow {
  const float* q;       // [dim]
  const float* keys;    // [visible, dim], as computed: rounded to the cache's dtype here
  const float* values;  // likewise
  int64_t first = 0;
  int64_t visible;
  int64_t dim;
  float scale;
  float softcap = 0.0f;  // or none
  DType stored;
  MatmulPrecision precision = MatmulPrecision::kBf16;
};
void attend(const AttentionRow& row, float* out);

}  // namespace unspool::reference
