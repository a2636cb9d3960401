// The vector type without vectors: 16 float lanes in an array. The same bits, slowly; for forcing and for checking.

struct F {
  float x[16];
};

template <class Op>
static inline F lanes(Op op) {
  F r;
  for (int i = 0; i < 16; ++i) r.x[i] = op(i);
  return r;
}
static inline float as_float(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
static inline uint32_t as_bits(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

static inline F f_zero() {
  return F{};
}
static inline F f_set1(float v) {
  return lanes([&](int) { return v; });
}
static inline F f_load(const float* p) {
  return lanes([&](int i) { return p[i]; });
}
static inline void f_store(float* p, F v) {
  for (int i = 0; i < 16; ++i) p[i] = v.x[i];
}
static inline F f_load_n(const float* p, int n, float fill) {
  return lanes([&](int i) { return i < n ? p[i] : fill; });
}
static inline void f_store_n(float* p, F v, int n) {
  for (int i = 0; i < n; ++i) p[i] = v.x[i];
}
static inline F f_keep_n(F v, int n, float fill) {
  return lanes([&](int i) { return i < n ? v.x[i] : fill; });
}
static inline F f_add(F a, F b) {
  return lanes([&](int i) { return a.x[i] + b.x[i]; });
}
static inline F f_sub(F a, F b) {
  return lanes([&](int i) { return a.x[i] - b.x[i]; });
}
static inline F f_mul(F a, F b) {
  return lanes([&](int i) { return a.x[i] * b.x[i]; });
}
static inline F f_div(F a, F b) {
  return lanes([&](int i) { return a.x[i] / b.x[i]; });
}
static inline F f_max(F a, F b) {
  return lanes([&](int i) { return a.x[i] > b.x[i] ? a.x[i] : b.x[i]; });
}
static inline F f_fma(F a, F b, F c) {
  return lanes([&](int i) { return __builtin_fmaf(a.x[i], b.x[i], c.x[i]); });
}
static inline F f_select_ge(F a, F b, F x, F y) {
  return lanes([&](int i) { return a.x[i] >= b.x[i] ? x.x[i] : y.x[i]; });
}
static inline uint32_t f_mask_ge(F a, F b) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<uint32_t>(a.x[i] >= b.x[i]) << i;
  return mask;
}
static inline uint32_t f_mask_less_than(F a, F b) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<uint32_t>(a.x[i] < b.x[i]) << i;
  return mask;
}
static inline F f_scale_pow2(F p, F n) {
  return lanes([&](int i) {
    // Out of the int range (a NaN, a lane that is thrown away afterwards) the vector conversion gives 2^31, whose shift
    // is 0.
    const uint32_t exponent = n.x[i] > -1e9f && n.x[i] < 1e9f ? static_cast<uint32_t>(static_cast<int32_t>(n.x[i])) : 0;
    return as_float(as_bits(p.x[i]) + (exponent << 23));
  });
}
static inline float f_sum_tree(F v) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v.x[i] = v.x[i] + v.x[i + half];
  return v.x[0];
}
static inline float f_max_lane(F v) {
  float m = v.x[0];
  for (int i = 1; i < 16; ++i) m = v.x[i] > m ? v.x[i] : m;
  return m;
}

static inline float f16_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 31) return as_float(sign | 0x7f800000u | (mantissa ? 0x400000u : 0u) | mantissa << 13);
  if (exponent != 0) return as_float(sign | (exponent + 112) << 23 | mantissa << 13);
  return as_float(sign | as_bits(static_cast<float>(mantissa) * 0x1p-24f));
}
static inline uint16_t float_to_f16(float v) {
  const uint32_t bits = as_bits(v);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16 or more
  if (magnitude < 0x38800000u) {  // below 2^-14: the result is subnormal, a multiple of 2^-24
    // Adding 0.5 puts the value's 2^-24 units into the low mantissa bits, rounded to nearest even.
    const float shifted = as_float(magnitude < 0x00800000u ? 0u : magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (as_bits(shifted) - as_bits(0.5f)));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}
static inline F f_from_f16(const uint16_t* p) {
  return lanes([&](int i) { return f16_to_float(p[i]); });
}
static inline void f_to_f16(uint16_t* p, F v) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_f16(v.x[i]);
}
static inline void f_to_bf16(uint16_t* p, F v) {
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = as_bits(v.x[i]), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
      p[i] = static_cast<uint16_t>(bits >> 16 | 0x40u);
    else if (magnitude < 0x00800000u)
      p[i] = static_cast<uint16_t>(bits >> 31 << 15);
    else
      p[i] = static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
  }
}
static inline F f_from_bf16(const uint16_t* p) {
  return lanes([&](int i) { return as_float(static_cast<uint32_t>(p[i]) << 16); });
}

template <class T>
static inline void transpose(const unsigned char* rows, int64_t stride, unsigned char* out) {
  constexpr int64_t kSize = static_cast<int64_t>(sizeof(T));
  for (int64_t k = 0; k < 64 / kSize; ++k)
    for (int64_t r = 0; r < 16; ++r) __builtin_memcpy(out + (k * 16 + r) * kSize, rows + r * stride + k * kSize, kSize);
}
// 16 rows of 16 words of 32 bits to [word][row].
static inline void transpose_words(const unsigned char* rows, int64_t stride, unsigned char* out) {
  transpose<uint32_t>(rows, stride, out);
}
// 16 rows of 32 halves of 16 bits to [half][row].
static inline void transpose_halves(const unsigned char* rows, int64_t stride, unsigned char* out) {
  transpose<uint16_t>(rows, stride, out);
}

struct WPair {
  F even, odd;
};
struct XPair {
  float even, odd;
};
static inline WPair load_pair(const uint16_t* w) {
  return {lanes([&](int i) { return as_float(static_cast<uint32_t>(w[2 * i]) << 16); }),
          lanes([&](int i) { return as_float(static_cast<uint32_t>(w[2 * i + 1]) << 16); })};
}
static inline XPair set1_pair(const uint32_t* x) {
  return {as_float(*x << 16), as_float(*x & 0xffff0000u)};
}
static inline F dot_pair(F acc, XPair x, WPair w) {
  return lanes([&](int i) { return __builtin_fmaf(x.even, w.even.x[i], __builtin_fmaf(x.odd, w.odd.x[i], acc.x[i])); });
}
using WidePair = WPair;
static inline WidePair widen_pair(const uint16_t* w) {
  return load_pair(w);
}
inline constexpr int kMaxRows = 2, kMaxPanels = 1;
