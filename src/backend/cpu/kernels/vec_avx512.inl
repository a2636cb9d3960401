// The vector type of AVX-512: 16 float lanes in one register. Included inside an instruction set's namespace.

using F = __m512;

static inline F f_zero() {
  return _mm512_setzero_ps();
}
static inline F f_set1(float x) {
  return _mm512_set1_ps(x);
}
static inline F f_load(const float* p) {
  return _mm512_loadu_ps(p);
}
static inline void f_store(float* p, F v) {
  _mm512_storeu_ps(p, v);
}
static inline __mmask16 first_lanes(int n) {
  return static_cast<__mmask16>((1u << n) - 1u);
}
// The first n lanes (0..16) from memory, the others `fill`. Whole registers, which most are, go without a mask: a
// branch that is always foreseen is cheaper, a masked store above all.
static inline F f_load_n(const float* p, int n, float fill) {
  if (n == 16) return f_load(p);
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n), p);
}
static inline void f_store_n(float* p, F v, int n) {
  if (n == 16) return f_store(p, v);
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}
// The first n lanes of v, the others `fill`.
static inline F f_keep_n(F v, int n, float fill) {
  return _mm512_mask_mov_ps(_mm512_set1_ps(fill), first_lanes(n), v);
}
static inline F f_add(F a, F b) {
  return _mm512_add_ps(a, b);
}
static inline F f_sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
static inline F f_mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
static inline F f_div(F a, F b) {
  return _mm512_div_ps(a, b);
}
static inline F f_max(F a, F b) {
  return _mm512_max_ps(a, b);
}
static inline F f_fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
// Lanes where a >= b take x, the others y; a NaN takes y.
static inline F f_select_ge(F a, F b, F x, F y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), y, x);
}
// Bit i is set where lane i of a >= b.
static inline uint32_t f_mask_ge(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
static inline uint32_t f_mask_less_than(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
// p * 2^n for p in [0.5, 2) and integral n that leaves the result normal: an addition to the exponent.
static inline F f_scale_pow2(F p, F n) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23)));
}
static inline float f_sum_tree(F v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
static inline float f_max_lane(F v) {
  return _mm512_reduce_max_ps(v);
}
static inline F f_from_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
static inline void f_to_f16(uint16_t* p, F v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

// To bf16: subnormals to a signed zero, nearest even, NaN quiet.
#if defined(UNSPOOL_NATIVE_BF16)
static inline void f_to_bf16(uint16_t* p, F v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v));
}
#else
// In integers, so that MXCSR has no say.
static inline __m512i bf16_bits(F v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 subnormal = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(0x00800000));
  rounded = _mm512_mask_mov_epi32(rounded, subnormal, _mm512_slli_epi32(_mm512_srli_epi32(bits, 31), 15));
  const __mmask16 nan = _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
  return _mm512_mask_mov_epi32(rounded, nan, _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40)));
}
static inline void f_to_bf16(uint16_t* p, F v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(bf16_bits(v)));
}
#endif
static inline F f_from_bf16(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}

// One quarter, 16 bytes, of four rows of a block: rows r, r + 4, r + 8 and r + 12.
static inline __m512i quarter_of_rows(const unsigned char* row, int64_t stride) {
  const auto load = [&](int64_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i * 4 * stride)); };
  __m512i q = _mm512_castsi128_si512(load(0));
  q = _mm512_inserti32x4(q, load(1), 1);
  q = _mm512_inserti32x4(q, load(2), 2);
  return _mm512_inserti32x4(q, load(3), 3);
}
// Words 4 * quarter and on, four of them, of all 16 rows: lane i is row i's.
static inline void transpose_quarter(const unsigned char* rows, int64_t stride, int quarter, __m512i word[4]) {
  const unsigned char* at = rows + quarter * 16;
  const __m512i a = quarter_of_rows(at, stride), b = quarter_of_rows(at + stride, stride);
  const __m512i c = quarter_of_rows(at + 2 * stride, stride), d = quarter_of_rows(at + 3 * stride, stride);
  const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
  word[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  word[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  word[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  word[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}
// 16 rows of 16 words of 32 bits to [word][row]. `out` is on a 64-byte boundary.
static inline void transpose_words(const unsigned char* rows, int64_t stride, unsigned char* out) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m512i word[4];
    transpose_quarter(rows, stride, quarter, word);
    for (int i = 0; i < 4; ++i) _mm512_stream_si512(reinterpret_cast<__m512i*>(out + (quarter * 4 + i) * 64), word[i]);
  }
}
// 16 rows of 32 halves of 16 bits to [half][row]. `out` is on a 32-byte boundary.
static inline void transpose_halves(const unsigned char* rows, int64_t stride, unsigned char* out) {
  for (int quarter = 0; quarter < 4; ++quarter) {
    __m512i word[4];
    transpose_quarter(rows, stride, quarter, word);
    for (int i = 0; i < 4; ++i) {
      auto* to = reinterpret_cast<__m256i*>(out + (quarter * 4 + i) * 64);
      _mm256_stream_si256(to, _mm512_cvtepi32_epi16(word[i]));
      _mm256_stream_si256(to + 1, _mm512_cvtepi32_epi16(_mm512_srli_epi32(word[i], 16)));
    }
  }
}

// Sixteen columns' pairs of bf16 weights as floats.
struct WidePair {
  F even, odd;
};
static inline WidePair widen_pair(const uint16_t* w) {
  const __m512i bits = _mm512_loadu_si512(w);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}

// Sixteen columns' pairs of bf16 weights, and one row's pair of activations.
#if defined(UNSPOOL_NATIVE_BF16)
using WPair = __m512i;
using XPair = __m512i;
static inline WPair load_pair(const uint16_t* w) {
  __m512i pair = _mm512_loadu_si512(w);
  // Kept in a register: g++ would otherwise fold the load into every row's instruction and read the weight again each
  // time.
  asm("" : "+v"(pair));
  return pair;
}
static inline XPair set1_pair(const uint32_t* x) {
  return _mm512_set1_epi32(static_cast<int>(*x));
}
static inline F dot_pair(F acc, XPair x, WPair w) {
  return _mm512_dpbf16_ps(acc, (__m512bh)x, (__m512bh)w);
}
inline constexpr int kMaxRows = 6, kMaxPanels = 4;  // 24 accumulators, 4 weights and 1 broadcast of 32 registers
#else
using WPair = WidePair;
struct XPair {
  F even, odd;
};
static inline WPair load_pair(const uint16_t* w) {
  return widen_pair(w);
}
static inline XPair set1_pair(const uint32_t* x) {
  return {_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*x << 16))),
          _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*x & 0xffff0000u)))};
}
static inline F dot_pair(F acc, XPair x, WPair w) {
  return f_fma(x.even, w.even, f_fma(x.odd, w.odd, acc));
}
inline constexpr int kMaxRows = 6, kMaxPanels = 2;  // 12 accumulators, 4 weights, 2 broadcasts, the mask
#endif
