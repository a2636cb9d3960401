#include "backend/math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace unspool {
namespace {

constexpr double kLn2High = 0x1.62e42fee00000p-1;  // 33 bits of ln 2: a product with |n| < 2^20 is exact
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// x = mantissa * 2^exponent with the mantissa in [sqrt(1/2), sqrt(2)).
double split_exponent(double x, int* exponent) {
  const auto bits = std::bit_cast<uint64_t>(x);
  *exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++*exponent;
  }
  return mantissa;
}

}  // namespace

float contract_exp(float x) {
  if (x != x) return x;
  if (x <= -87.0f) return 0.0f;
  if (x >= 88.72283f) return std::numeric_limits<float>::infinity();
  const float n = __builtin_fmaf(x, 1.44269504f, 12582912.0f) - 12582912.0f;
  float r = __builtin_fmaf(n, -0.693145752f, x);
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float p = 1.98412701e-4f;
  p = __builtin_fmaf(p, r, 1.38888892e-3f);
  p = __builtin_fmaf(p, r, 8.33333377e-3f);
  p = __builtin_fmaf(p, r, 4.16666679e-2f);
  p = __builtin_fmaf(p, r, 0.166666672f);
  p = __builtin_fmaf(p, r, 0.5f);
  p = __builtin_fmaf(p, r, 1.0f);
  p = __builtin_fmaf(p, r, 1.0f);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + (static_cast<uint32_t>(static_cast<int32_t>(n)) << 23));
}

// With a = |x|: below 0.55 a + a^3 P(a^2), from there on 1 - 2 / (exp(2a) + 1); then the sign.
float contract_tanh(float x) {
  const float minus = 0.0f - x;
  const float a = x > minus ? x : minus;
  if (!(a >= 0.55f)) {
    const float square = a * a;
    float p = -6.27423963e-3f;
    p = __builtin_fmaf(p, square, 2.1071678e-2f);
    p = __builtin_fmaf(p, square, -5.38523085e-2f);
    p = __builtin_fmaf(p, square, 0.13332586f);
    p = __builtin_fmaf(p, square, -0.333333164f);
    const float small = __builtin_fmaf(a * square, p, a);
    return x >= 0.0f ? small : 0.0f - small;
  }
  const float quotient = 2.0f / (contract_exp(a + a) + 1.0f);
  const float large = 1.0f - quotient;
  return x >= 0.0f ? large : 0.0f - large;
}

double contract_log(double x) {
  int exponent = 0;
  const double m = split_exponent(x, &exponent);
  // log m = 2 artanh(t), t = (m - 1) / (m + 1), |t| < 0.172: the series' terms past t^23 are below 1e-18.
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double sum = 1.0 / 23.0;
  for (int k = 21; k >= 3; k -= 2) sum = sum * t2 + 1.0 / k;
  const double log_m = 2.0 * (t + t * (t2 * sum));
  const double n = exponent;
  return n * kLn2High + (n * kLn2Low + log_m);
}

float contract_log(float x) {
  if (!(x >= 0.0f)) return std::numeric_limits<float>::quiet_NaN();
  if (x == 0.0f) return -std::numeric_limits<float>::infinity();
  if (x == std::numeric_limits<float>::infinity()) return x;
  return static_cast<float>(contract_log(static_cast<double>(x)));
}

double contract_exp(double x) {
  const double n = (x * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0;
  for (int k = 16; k >= 1; --k) p = 1.0 + p * r / k;
  return p * std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

void contract_sincos(double x, double* sine, double* cosine) {
  // x = n pi/2 + r with pi/2 in three parts of 33 bits, so that n times each of the first two is exact.
  constexpr double kHalfPi1 = 0x1.921fb54400000p+0, kHalfPi2 = 0x1.0b4611a600000p-34, kHalfPi3 = 0x1.3198a2e037073p-69;
  const double n = (x * 0.63661977236758138 + 6755399441055744.0) - 6755399441055744.0;
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double r2 = r * r;
  double s = 1.0, c = 1.0;  // Taylor to r^19 and r^20: past 1e-19 at |r| = pi/4
  for (int k = 18; k >= 2; k -= 2) s = 1.0 - s * r2 / (k * (k + 1));
  for (int k = 19; k >= 1; k -= 2) c = 1.0 - c * r2 / (k * (k + 1));
  s *= r;
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      *sine = s, *cosine = c;
      break;
    case 1:
      *sine = c, *cosine = -s;
      break;
    case 2:
      *sine = -s, *cosine = -c;
      break;
    default:
      *sine = -c, *cosine = s;
      break;
  }
}

}  // namespace unspool
