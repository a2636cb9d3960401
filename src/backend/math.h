// Scalar functions of the arithmetic contract: no libm, the same bits on every machine (docs/numerics.md, section 2).
#pragma once

namespace unspool {

// Bounds on the errors, held by math_test against long double: in units in the last place of the result, but for sine
// and cosine, whose error is absolute, in units of 2^-53. That of the float exp is over every float (0.9386,
// at 26.689).
inline constexpr double kExpErrorUlp = 0.94;
inline constexpr double kLogErrorUlp = 0.51;
inline constexpr double kTanhErrorUlp = 1.5;
inline constexpr double kExpDoubleErrorUlp = 2.0;
inline constexpr double kLogDoubleErrorUlp = 2.0;
inline constexpr double kSinCosError = 2.0;

// exp of a float, bit for bit the kernels' lanes: exactly 1 at 0, 0 at or below -87, +inf from 88.72283 up.
float contract_exp(float x);
// tanh of a float, bit for bit the kernels' lanes; 0 at -0.
float contract_tanh(float x);
// log of a positive normal float, computed in double and rounded once. log(1) is 0 exactly; log(0) is -inf; below 0
// NaN.
float contract_log(float x);

// In double, to about 1e-15 of the value: for tables that are computed once and rounded once.
double contract_exp(double x);  // |x| <= 700
double contract_log(double x);  // positive, normal
// Sine and cosine of |x| up to 2^22.
void contract_sincos(double x, double* sine, double* cosine);

}  // namespace unspool
