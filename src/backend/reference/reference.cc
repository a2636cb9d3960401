#include "backend/reference/reference.h"

#include <vector>

#include "backend/math.h"
#include "tensor/convert.h"

namespace unspool::reference {

float stored_value(float value, DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return bf16_to_float(float_to_bf16(value));
    case DType::kFloat16:
      return f16_to_float(float_to_f16(value));
    default:
      return value;
  }
}

float chain_bf16(const uint16_t* x, const uint16_t* w, int64_t k) {
  float acc = 0.0f;
  for (int64_t i = 0; i < k; i += 2) {
    const float x_odd = i + 1 < k ? bf16_to_float(x[i + 1]) : 0.0f;
    const float w_odd = i + 1 < k ? bf16_to_float(w[i + 1]) : 0.0f;
    acc = __builtin_fmaf(x_odd, w_odd, acc);
    acc = __builtin_fmaf(bf16_to_float(x[i]), bf16_to_float(w[i]), acc);
  }
  return acc;
}

float chain_f32(const float* x, const float* w, int64_t k) {
  float acc = 0.0f;
  for (int64_t i = 0; i < k; ++i) acc = __builtin_fmaf(x[i], w[i], acc);
  return acc;
}

SplitBf16 split_bf16(float x) {
  const uint16_t hi = float_to_bf16(x);
  return {hi, float_to_bf16(x - bf16_to_float(hi))};
}

float dot(const float* x, const float* w, int64_t k, DType dtype, MatmulPrecision precision) {
  const auto n = static_cast<size_t>(k);
  if (dtype != DType::kBFloat16) {
    std::vector<float> weights(n);
    for (size_t i = 0; i < n; ++i) weights[i] = stored_value(w[i], dtype);
    return chain_f32(x, weights.data(), k);
  }
  std::vector<uint16_t> hi(n), lo(n), weights(n);
  for (size_t i = 0; i < n; ++i) {
    const SplitBf16 split = split_bf16(x[i]);
    hi[i] = split.hi;
    lo[i] = split.lo;
    weights[i] = float_to_bf16(w[i]);
  }
  const float high = chain_bf16(hi.data(), weights.data(), k);
  if (precision == MatmulPrecision::kBf16) return high;
  return high + chain_bf16(lo.data(), weights.data(), k);
}

void linear(const LinearArgs& args, float* y) {
  for (int64_t r = 0; r < args.rows; ++r)
    for (int64_t j = 0; j < args.outputs; ++j) {
      float sum = dot(args.x + r * args.columns, args.w + j * args.columns, args.columns, args.dtype, args.precision);
      if (args.bias != nullptr) sum = sum + args.bias[j];
      if (args.residual != nullptr) sum = sum + args.residual[r * args.outputs + j];
      y[r * args.outputs + j] = sum;
    }
}

namespace {

// Sixteen partial sums become one in the tree 8, 4, 2, 1.
float sum_tree(float (&lanes)[16]) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  return lanes[0];
}

}  // namespace

// The steps, one rounding each unless said otherwise:
//   1. sixteen partial sums: lane i takes the features i, i + 16, ... in ascending order, lane = fma(x, x, lane) from
//   +0
//   2. the tree adds lane i + 8 to i, then i + 4, i + 2, i + 1
//   3. mean = sum / n
//   4. inverse = 1 / sqrt(mean + eps): the sum, the root and the quotient round once each
//   5. y = x * inverse
//   6. y = y * (weight + offset), the sum rounded first; with no offset y * weight
void rms_norm(const float* x, const float* weight, float offset, float eps, int64_t n, float* y) {
  float lanes[16] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % 16] = __builtin_fmaf(x[i], x[i], lanes[i % 16]);
  const float mean = sum_tree(lanes) / static_cast<float>(n);
  const float inverse = 1.0f / __builtin_sqrtf(mean + eps);
  for (int64_t i = 0; i < n; ++i) {
    float value = x[i] * inverse;
    if (weight != nullptr) value = value * (offset == 0.0f ? weight[i] : weight[i] + offset);
    y[i] = value;
  }
}

// The steps: -x as 0 - x, its exponential, 1 + that, x divided by the sum. No reciprocal.
float silu(float x) {
  const float e = contract_exp(0.0f - x);
  const float denominator = 1.0f + e;
  return x / denominator;
}

// The gate's bias and the up projection's are added first; then silu, then the product.
void silu_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    float g = gate[i], u = up[i];
    if (gate_bias != nullptr) g = g + gate_bias[i];
    if (up_bias != nullptr) u = u + up_bias[i];
    y[i] = silu(g) * u;
  }
}

// The cube as (x * x) * x, one fused step, two products, tanh, 1 + that, times x / 2.
float gelu_tanh(float x) {
  const float square = x * x, cube = square * x;
  const float inner = 0.797884583f * __builtin_fmaf(0.044715f, cube, x);
  const float half = 0.5f * x, one_plus = 1.0f + contract_tanh(inner);
  return half * one_plus;
}

void gelu_tanh_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t n,
                   float* y) {
  for (int64_t i = 0; i < n; ++i) {
    float g = gate[i], u = up[i];
    if (gate_bias != nullptr) g = g + gate_bias[i];
    if (up_bias != nullptr) u = u + up_bias[i];
    y[i] = gelu_tanh(g) * u;
  }
}

float softcap(float x, float cap) {
  const float part = x / cap;
  return cap * contract_tanh(part);
}

// Two products and their difference or sum: three roundings, no fused step.
void rotate(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t j = 0; j < half; ++j) {
    const float first = x[j], second = x[half + j];
    const float first_cos = first * cos[j], second_sin = second * sin[j];
    const float second_cos = second * cos[j], first_sin = first * sin[j];
    x[j] = first_cos - second_sin;
    x[half + j] = second_cos + first_sin;
  }
}

}  // namespace unspool::reference
