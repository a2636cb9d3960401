// exp, SiLU, RMSNorm, rotary embedding and conversions, the same bits on every instruction set.

// exp(x): x = n ln 2 + r, |r| <= ln(2)/2, the Taylor polynomial of degree 7 in r (it leaves 5e-9 of the value), times
// 2^n. exp(0) is exactly 1; below kExpCut the result is 0, above kExpMax +inf; NaN stays NaN. Error: see math_test.
inline constexpr float kExpCut = -87.0f;  // exp(-87) is the last above the smallest normal with room to spare
inline constexpr float kExpMax = 88.72283f;
// The same for x that is not above kExpMax, such as a value less the maximum.
static inline F f_exp_not_huge(F x) {
  const F magic = f_set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to the nearest integer
  const F n = f_sub(f_fma(x, f_set1(1.44269504f), magic), magic);
  F r = f_fma(n, f_set1(-0.693145752f), x);  // ln 2 to 15 bits: n times it is exact
  r = f_fma(n, f_set1(-1.42860677e-6f), r);  // the rest of ln 2
  F p = f_set1(1.98412701e-4f);              // 1/7!
  p = f_fma(p, r, f_set1(1.38888892e-3f));
  p = f_fma(p, r, f_set1(8.33333377e-3f));
  p = f_fma(p, r, f_set1(4.16666679e-2f));
  p = f_fma(p, r, f_set1(0.166666672f));
  p = f_fma(p, r, f_set1(0.5f));
  p = f_fma(p, r, f_set1(1.0f));
  p = f_fma(p, r, f_set1(1.0f));
  return f_select_ge(f_set1(kExpCut), x, f_zero(), f_scale_pow2(p, n));
}
static inline F f_exp(F x) {
  return f_select_ge(x, f_set1(kExpMax), f_set1(__builtin_inff()), f_exp_not_huge(x));
}

// silu(x) = x / (1 + exp(-x)).
static inline F f_silu(F x) {
  return f_div(x, f_add(f_set1(1.0f), f_exp(f_sub(f_zero(), x))));
}

// tanh(x) with a = |x|: below 0.55 a + a^3 P(a^2), P of degree 4 (it leaves 1.1e-9 of the value); from there on
// 1 - 2 / (exp(2a) + 1), which is 1 once the exponential is infinite. Then the sign; -0 becomes 0.
static inline F f_tanh(F x) {
  const F minus = f_sub(f_zero(), x), a = f_max(x, minus), square = f_mul(a, a), one = f_set1(1.0f);
  F p = f_set1(-6.27423963e-3f);
  p = f_fma(p, square, f_set1(2.1071678e-2f));
  p = f_fma(p, square, f_set1(-5.38523085e-2f));
  p = f_fma(p, square, f_set1(0.13332586f));
  p = f_fma(p, square, f_set1(-0.333333164f));
  const F small = f_fma(f_mul(a, square), p, a);
  const F large = f_sub(one, f_div(f_set1(2.0f), f_add(f_exp(f_add(a, a)), one)));
  const F y = f_select_ge(a, f_set1(0.55f), large, small);
  return f_select_ge(x, f_zero(), y, f_sub(f_zero(), y));
}

static void softcap(float* x, float cap, int64_t n) {
  const F c = f_set1(cap);
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    f_store_n(x + j, f_mul(c, f_tanh(f_div(f_load_n(x + j, m, 0.0f), c))), m);
  }
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), a rounding a step but for the cube's, which is fused.
static inline F f_gelu_tanh(F x) {
  const F cube = f_mul(f_mul(x, x), x);
  const F inner = f_mul(f_set1(0.797884583f), f_fma(f_set1(0.044715f), cube, x));
  return f_mul(f_mul(f_set1(0.5f), x), f_add(f_set1(1.0f), f_tanh(inner)));
}

template <F (*kActivation)(F)>
static inline void activate_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias,
                                int64_t columns, float* y) {
  for (int64_t j = 0; j < columns; j += 16) {
    const int n = columns - j < 16 ? static_cast<int>(columns - j) : 16;
    F g = f_load_n(gate + j, n, 0.0f), u = f_load_n(up + j, n, 0.0f);
    if (gate_bias != nullptr) g = f_add(g, f_load_n(gate_bias + j, n, 0.0f));
    if (up_bias != nullptr) u = f_add(u, f_load_n(up_bias + j, n, 0.0f));
    f_store_n(y + j, f_mul(kActivation(g), u), n);
  }
}
static void silu_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t columns,
                     float* y) {
  activate_mul<f_silu>(gate, up, gate_bias, up_bias, columns, y);
}
static void gelu_tanh_mul(const float* gate, const float* up, const float* gate_bias, const float* up_bias,
                          int64_t columns, float* y) {
  activate_mul<f_gelu_tanh>(gate, up, gate_bias, up_bias, columns, y);
}

static void add_weighted(const float* const* rows, const float* weights, int count, int64_t n, float* y) {
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    F sum = f_mul(f_set1(weights[0]), f_load_n(rows[0] + j, m, 0.0f));
    for (int i = 1; i < count; ++i) sum = f_fma(f_set1(weights[i]), f_load_n(rows[i] + j, m, 0.0f), sum);
    f_store_n(y + j, f_add(f_load_n(y + j, m, 0.0f), sum), m);
  }
}

static void softmax(float* x, int64_t n) {
  F most = f_set1(-__builtin_inff());
  for (int64_t j = 0; j < n; j += 16)
    most = f_max(most, f_load_n(x + j, n - j < 16 ? static_cast<int>(n - j) : 16, -__builtin_inff()));
  const F shift = f_set1(f_max_lane(most));
  F sum = f_zero();
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    const F e = f_keep_n(f_exp_not_huge(f_sub(f_load_n(x + j, m, 0.0f), shift)), m, 0.0f);
    sum = f_add(sum, e);
    f_store_n(x + j, e, m);
  }
  const F total = f_set1(f_sum_tree(sum));
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    f_store_n(x + j, f_div(f_load_n(x + j, m, 0.0f), total), m);
  }
}

static void sigmoid(float* x, int64_t n) {
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    const F e = f_exp(f_sub(f_zero(), f_load_n(x + j, m, 0.0f)));
    f_store_n(x + j, f_div(f_set1(1.0f), f_add(f_set1(1.0f), e)), m);
  }
}

static void rms_norm(const float* x, const float* weight, float offset, float eps, int64_t n, float* y) {
  F squares = f_zero();  // lane i: the sum over features congruent to i mod 16, ascending
  for (int64_t j = 0; j < n; j += 16) {
    const F v = f_load_n(x + j, n - j < 16 ? static_cast<int>(n - j) : 16, 0.0f);
    squares = f_fma(v, v, squares);
  }
  const float mean = f_sum_tree(squares) / static_cast<float>(n);
  const F inverse = f_set1(1.0f / __builtin_sqrtf(mean + eps));
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    F v = f_mul(f_load_n(x + j, m, 0.0f), inverse);
    if (weight != nullptr) {
      const F w = f_load_n(weight + j, m, 0.0f);
      v = f_mul(v, offset == 0.0f ? w : f_add(w, f_set1(offset)));
    }
    f_store_n(y + j, v, m);
  }
}

static void rotate(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t j = 0; j < half; j += 16) {
    const int n = half - j < 16 ? static_cast<int>(half - j) : 16;
    const F c = f_load_n(cos + j, n, 0.0f), s = f_load_n(sin + j, n, 0.0f);
    const F first = f_load_n(x + j, n, 0.0f), second = f_load_n(x + half + j, n, 0.0f);
    f_store_n(x + j, f_sub(f_mul(first, c), f_mul(second, s)), n);
    f_store_n(x + half + j, f_add(f_mul(second, c), f_mul(first, s)), n);
  }
}

static void to_bf16(const float* x, int64_t n, uint16_t* hi) {
  int64_t j = 0;
  for (; j + 16 <= n; j += 16) f_to_bf16(hi + j, f_load(x + j));
  if (j < n) {
    uint16_t tail[16];
    const int left = static_cast<int>(n - j);
    f_to_bf16(tail, f_load_n(x + j, left, 0.0f));
    for (int i = 0; i < left; ++i) hi[j + i] = tail[i];
  }
}

static void to_bf16x2(const float* x, int64_t n, uint16_t* hi, uint16_t* lo) {
  uint16_t h[16], l[16];
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    const F v = f_load_n(x + j, m, 0.0f);
    f_to_bf16(h, v);
    f_to_bf16(l, f_sub(v, f_from_bf16(h)));
    for (int i = 0; i < m; ++i) hi[j + i] = h[i], lo[j + i] = l[i];
  }
}

static void to_f16(const float* x, int64_t n, uint16_t* y) {
  uint16_t h[16];
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    f_to_f16(h, f_load_n(x + j, m, 0.0f));
    for (int i = 0; i < m; ++i) y[j + i] = h[i];
  }
}
