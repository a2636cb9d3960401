// The vector type of AVX2: 16 float lanes in two registers. Included inside an instruction set's namespace.

struct F {
  __m256 a, b;
};

static inline F f_zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline F f_set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline F f_load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void f_store(float* p, F v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
// The first n lanes (0..16) from memory, the others `fill`.
static inline F f_load_n(const float* p, int n, float fill) {
  if (n == 16) return f_load(p);
  alignas(32) float x[16];
  for (int i = 0; i < 16; ++i) x[i] = i < n ? p[i] : fill;
  return f_load(x);
}
static inline void f_store_n(float* p, F v, int n) {
  if (n == 16) return f_store(p, v);
  alignas(32) float x[16];
  f_store(x, v);
  for (int i = 0; i < n; ++i) p[i] = x[i];
}
// The first n lanes of v, the others `fill`.
static inline F f_keep_n(F v, int n, float fill) {
  if (n >= 16) return v;
  alignas(32) float x[16];
  f_store(x, v);
  for (int i = n; i < 16; ++i) x[i] = fill;
  return f_load(x);
}
static inline F f_add(F x, F y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline F f_sub(F x, F y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline F f_mul(F x, F y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline F f_div(F x, F y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline F f_max(F x, F y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline F f_fma(F x, F y, F z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
// Lanes where a >= b take x, the others y; a NaN takes y.
static inline F f_select_ge(F a, F b, F x, F y) {
  return {_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_GE_OQ)),
          _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_GE_OQ))};
}
// Bit i is set where lane i of x >= y.
static inline uint32_t f_mask_ge(F x, F y) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_GE_OQ))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_GE_OQ))) << 8;
}
static inline uint32_t f_mask_less_than(F x, F y) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ))) |
         static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))) << 8;
}
static inline __m256 scale_pow2(__m256 p, __m256 n) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
// p * 2^n for p in [0.5, 2) and integral n that leaves the result normal: an addition to the exponent.
static inline F f_scale_pow2(F p, F n) {
  return {scale_pow2(p.a, n.a), scale_pow2(p.b, n.b)};
}
static inline float f_sum_tree(F v) {
  alignas(32) float x[16];
  f_store(x, v);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) x[i] = x[i] + x[i + half];
  return x[0];
}
static inline float f_max_lane(F v) {
  alignas(32) float x[16];
  f_store(x, v);
  float m = x[0];
  for (int i = 1; i < 16; ++i) m = x[i] > m ? x[i] : m;
  return m;
}
static inline F f_from_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
static inline void f_to_f16(uint16_t* p, F v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(v.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// To bf16: subnormals to a signed zero, nearest even, NaN quiet. In integers, so that MXCSR has no say.
static inline __m256i bf16_bits(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude);
  const __m256i signed_zero = _mm256_slli_epi32(_mm256_srli_epi32(bits, 31), 15);
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(_mm256_blendv_epi8(rounded, signed_zero, subnormal), quiet, nan);
}
static inline void f_to_bf16(uint16_t* p, F v) {
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(bf16_bits(v.a), bf16_bits(v.b)), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
}
static inline __m256 from_bf16(const uint16_t* p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
static inline F f_from_bf16(const uint16_t* p) {
  return {from_bf16(p), from_bf16(p + 8)};
}

// One quarter, 16 bytes, of two rows of a block: rows r and r + 4.
static inline __m256i quarter_of_rows(const unsigned char* row, int64_t stride) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row))),
                                 _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 4 * stride)), 1);
}
// Words 4 * quarter and on, four of them, of 8 rows: lane i is row i's.
static inline void transpose_quarter(const unsigned char* rows, int64_t stride, int quarter, __m256i word[4]) {
  const unsigned char* at = rows + quarter * 16;
  const __m256i a = quarter_of_rows(at, stride), b = quarter_of_rows(at + stride, stride);
  const __m256i c = quarter_of_rows(at + 2 * stride, stride), d = quarter_of_rows(at + 3 * stride, stride);
  const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
  word[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
  word[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
  word[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
  word[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
}
// 16 rows of 16 words of 32 bits to [word][row]. `out` is on a 32-byte boundary.
static inline void transpose_words(const unsigned char* rows, int64_t stride, unsigned char* out) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m256i low[4], high[4];
    transpose_quarter(rows, stride, quarter, low);
    transpose_quarter(rows + 8 * stride, stride, quarter, high);
    for (int i = 0; i < 4; ++i) {
      auto* to = reinterpret_cast<__m256i*>(out + (quarter * 4 + i) * 64);
      _mm256_stream_si256(to, low[i]);
      _mm256_stream_si256(to + 1, high[i]);
    }
  }
}
// The 16 low halves of 16 words.
static inline __m256i low_halves(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)), 0xd8);
}
// 16 rows of 32 halves of 16 bits to [half][row]. `out` is on a 32-byte boundary.
static inline void transpose_halves(const unsigned char* rows, int64_t stride, unsigned char* out) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m256i low[4], high[4];
    transpose_quarter(rows, stride, quarter, low);
    transpose_quarter(rows + 8 * stride, stride, quarter, high);
    for (int i = 0; i < 4; ++i) {
      auto* to = reinterpret_cast<__m256i*>(out + (quarter * 4 + i) * 64);
      _mm256_stream_si256(to, low_halves(low[i], high[i]));
      _mm256_stream_si256(to + 1, low_halves(_mm256_srli_epi32(low[i], 16), _mm256_srli_epi32(high[i], 16)));
    }
  }
}

// Sixteen columns' pairs of bf16 weights, and one row's pair of activations.
struct WPair {
  F even, odd;
};
struct XPair {
  __m256 even, odd;
};
static inline WPair load_pair(const uint16_t* w) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i p = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 16));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(p, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(q, 16))},
          {_mm256_castsi256_ps(_mm256_and_si256(p, high)), _mm256_castsi256_ps(_mm256_and_si256(q, high))}};
}
static inline XPair set1_pair(const uint32_t* x) {
  return {_mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*x << 16))),
          _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*x & 0xffff0000u)))};
}
static inline F dot_pair(F acc, XPair x, WPair w) {
  return {_mm256_fmadd_ps(x.even, w.even.a, _mm256_fmadd_ps(x.odd, w.odd.a, acc.a)),
          _mm256_fmadd_ps(x.even, w.even.b, _mm256_fmadd_ps(x.odd, w.odd.b, acc.b))};
}
using WidePair = WPair;
static inline WidePair widen_pair(const uint16_t* w) {
  return load_pair(w);
}
inline constexpr int kMaxRows = 4, kMaxPanels = 1;  // 8 accumulators, 4 weights and 2 broadcasts of 16 registers
