// Reductions over the vocabulary (backend/vocab_kernels.h says what each gives).

// One block, of kVocabBlock values where kWhole: without masks, which cost a tenth of it.
template <bool kWhole>
static inline BlockStat block_stat(const float* x, int64_t size) {
  const float lowest = -__builtin_inff();
  const auto load = [=](int64_t j) {
    return kWhole ? f_load(x + j) : f_load_n(x + j, size - j < 16 ? static_cast<int>(size - j) : 16, lowest);
  };
  const int64_t end = kWhole ? kVocabBlock : size;
  F m = f_set1(lowest);
  for (int64_t j = 0; j < end; j += 16) m = f_max(m, load(j));
  const float max = f_max_lane(m);
  if (max == lowest) {
    // Of -inf alone, or a NaN that the maximum passed over.
    for (int64_t j = 0; j < size; ++j)
      if (x[j] != x[j]) return {lowest, x[j]};
    return {lowest, 0.0f};
  }
  F sum = f_zero();
  const F shift = f_set1(max);
  for (int64_t j = 0; j < end; j += 16) sum = f_add(sum, f_exp_not_huge(f_sub(load(j), shift)));
  return {max, f_sum_tree(sum)};
}

static void block_stats(const float* x, int64_t n, BlockStat* stats) {
  int64_t start = 0;
  for (; start + kVocabBlock <= n; start += kVocabBlock) *stats++ = block_stat<true>(x + start, kVocabBlock);
  if (start < n) *stats = block_stat<false>(x + start, n - start);
}

static int64_t count_at_least(const float* x, int64_t n, float value) {
  const F v = f_set1(value);
  int64_t count = 0, j = 0;
  for (; j + 16 <= n; j += 16) count += __builtin_popcount(f_mask_ge(f_load(x + j), v));
  for (; j < n; ++j) count += x[j] >= value;
  return count;
}

static int64_t argmax(const float* x, int64_t n) {
  F m = f_set1(x[0]);
  for (int64_t j = 0; j < n; j += 16) m = f_max(m, f_load_n(x + j, n - j < 16 ? static_cast<int>(n - j) : 16, x[0]));
  const float max = f_max_lane(m);
  const F v = f_set1(max);
  int64_t j = 0;
  for (; j + 16 <= n; j += 16)
    if (const uint32_t mask = f_mask_ge(f_load(x + j), v)) return j + __builtin_ctz(mask);
  for (; j < n; ++j)
    if (x[j] >= max) return j;
  return 0;
}

template <class Op>
static inline void map(const float* x, int64_t n, float* y, Op op) {
  for (int64_t j = 0; j < n; j += 16) {
    const int m = n - j < 16 ? static_cast<int>(n - j) : 16;
    f_store_n(y + j, op(f_load_n(x + j, m, 0.0f)), m);
  }
}
static void exp_shifted(const float* x, int64_t n, float shift, float* y) {
  const F s = f_set1(shift);
  map(x, n, y, [s](F v) { return f_exp(f_sub(v, s)); });
}
static void scale(const float* x, int64_t n, float factor, float* y) {
  const F f = f_set1(factor);
  map(x, n, y, [f](F v) { return f_mul(v, f); });
}
static void divide(const float* x, int64_t n, float divisor, float* y) {
  const F d = f_set1(divisor);
  map(x, n, y, [d](F v) { return f_div(v, d); });
}

static int64_t select_at_least(const float* x, int64_t n, float threshold, int32_t* indices, int64_t capacity) {
  const F t = f_set1(threshold);
  int64_t count = 0, j = 0;
  for (; j + 16 <= n; j += 16)
    for (uint32_t mask = f_mask_ge(f_load(x + j), t); mask != 0; mask &= mask - 1, ++count)
      if (count < capacity) indices[count] = static_cast<int32_t>(j + __builtin_ctz(mask));
  for (; j < n; ++j)
    if (x[j] >= threshold) {
      if (count < capacity) indices[count] = static_cast<int32_t>(j);
      ++count;
    }
  return count;
}

static bool no_nan_or_positive_inf(const float* x, int64_t n) {
  const F inf = f_set1(__builtin_inff());
  int64_t j = 0;
  for (; j + 16 <= n; j += 16)
    if (f_mask_less_than(f_load(x + j), inf) != 0xffffu) return false;
  for (; j < n; ++j)
    if (!(x[j] < __builtin_inff())) return false;
  return true;
}
