// Matrix products: register tiles of R rows by P panels, every output element one chain over ascending k
// (docs/numerics.md).

struct Bf16Kind {
  using A = uint32_t;  // a pair
  using W = WPair;
  using X = XPair;
  static constexpr int kStepBytes = 64;
  static inline W load(const unsigned char* b) { return load_pair(reinterpret_cast<const uint16_t*>(b)); }
  static inline X set1(const A* a) { return set1_pair(a); }
  static inline F step(F acc, X x, W w) { return dot_pair(acc, x, w); }
};
// The same weights against floats.
struct WideBf16Kind {
  struct A {
    float even, odd;
  };
  using W = WidePair;
  using X = A;
  static constexpr int kStepBytes = 64;
  static inline W load(const unsigned char* b) { return widen_pair(reinterpret_cast<const uint16_t*>(b)); }
  static inline X set1(const A* a) { return *a; }
  static inline F step(F acc, X x, W w) { return f_fma(f_set1(x.odd), w.odd, f_fma(f_set1(x.even), w.even, acc)); }
};
struct F32Kind {
  using A = float;
  using W = F;
  using X = F;
  static constexpr int kStepBytes = 64;
  static inline W load(const unsigned char* b) { return f_load(reinterpret_cast<const float*>(b)); }
  static inline X set1(const A* a) { return f_set1(*a); }
  static inline F step(F acc, X x, W w) { return f_fma(x, w, acc); }
};
struct F16Kind {
  using A = float;
  using W = F;
  using X = F;
  static constexpr int kStepBytes = 32;
  static inline W load(const unsigned char* b) { return f_from_f16(reinterpret_cast<const uint16_t*>(b)); }
  static inline X set1(const A* a) { return f_set1(*a); }
  static inline F step(F acc, X x, W w) { return f_fma(x, w, acc); }
};

// How far ahead of its reads a panel that comes from memory is prefetched. With four panels at 16 GB/s (one core's
// share of the memory's bandwidth) a step of 256 bytes takes 16 ns, so that 24 steps are four times the latency of a
// miss.
inline constexpr int64_t kPrefetchSteps = 24;

// What a tile of rows brings into the cache beside its products.
enum class Fetch {
  kOwn,    // the weights that it reads itself, which may still be in memory: the first rows do
  kAhead,  // the weights that come next
  kNext,   // what attention reads next: see ProductArgs::next_offset
  kNone,
};
struct Ahead {
  const unsigned char* next;
  int lines;  // of 64 bytes a step
};

template <class Kind, int R, int P, Fetch kFetch>
static inline __attribute__((always_inline)) void product_tile(const ProductArgs& args, int64_t row, int panel,
                                                               Ahead ahead) {
  const auto* a = static_cast<const typename Kind::A*>(args.a) + row * args.a_stride;
  const int64_t a_stride = args.a_stride;
  const int64_t b_step = args.b_stride * Kind::kStepBytes;
  F acc[R][P];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) acc[r][p] = f_zero();

  const void* const* chunk = args.b + panel;
  for (int64_t done = 0; done < args.steps; chunk += args.panels) {
    const int64_t left = args.steps - done;
    const int64_t n = left < args.steps_per_chunk ? left : args.steps_per_chunk;
    const unsigned char* b[P];
    int64_t next[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) b[p] = static_cast<const unsigned char*>(chunk[p]);
    if constexpr (kFetch == Fetch::kNext)
      for (int p = 0; p < P; ++p) next[p] = static_cast<const unsigned char*>(chunk[p + args.next_offset]) - b[p];
    int64_t s = 0;
    // Runs to step `end`; the first rows prefetch `own_ahead` bytes from where they read.
    const auto run = [&](int64_t end, int64_t own_ahead) __attribute__((always_inline)) {
      for (; s < end; ++s, ++a) {
        if constexpr (kFetch == Fetch::kAhead)
          for (int line = 0; line < ahead.lines; ++line, ahead.next += 64) __builtin_prefetch(ahead.next, 0, 2);
        typename Kind::W w[P];
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          w[p] = Kind::load(b[p]);
          if constexpr (kFetch == Fetch::kNext) __builtin_prefetch(b[p] + next[p], 0, 2);
          if constexpr (kFetch == Fetch::kOwn) __builtin_prefetch(b[p] + own_ahead, 0, 2);
          b[p] += b_step;
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const typename Kind::X x = Kind::set1(a + r * a_stride);
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p) acc[r][p] = Kind::step(acc[r][p], x, w[p]);
        }
      }
    };
    const int64_t own_ahead = kPrefetchSteps * b_step;
    if constexpr (kFetch == Fetch::kOwn) run(n - kPrefetchSteps, own_ahead);
    run(n, own_ahead + args.next_bytes);
    done += n;
  }
  float* c = args.c + row * args.c_stride + static_cast<int64_t>(panel) * 16;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) f_store(c + r * args.c_stride + p * 16, acc[r][p]);
}

template <class Kind, int P, Fetch kFetch>
static inline void product_rows(const ProductArgs& args, int64_t row, int panel, const Ahead& ahead) {
  switch (args.rows - row) {
    case 1:
      return product_tile<Kind, 1, P, kFetch>(args, row, panel, ahead);
    case 2:
      if constexpr (kMaxRows > 2) return product_tile<Kind, 2, P, kFetch>(args, row, panel, ahead);
      break;
    case 3:
      if constexpr (kMaxRows > 3) return product_tile<Kind, 3, P, kFetch>(args, row, panel, ahead);
      break;
    case 4:
      if constexpr (kMaxRows > 4) return product_tile<Kind, 4, P, kFetch>(args, row, panel, ahead);
      break;
    case 5:
      if constexpr (kMaxRows > 5) return product_tile<Kind, 5, P, kFetch>(args, row, panel, ahead);
      break;
    default:
      break;
  }
  product_tile<Kind, kMaxRows, P, kFetch>(args, row, panel, ahead);
}

template <class Kind, int P, Fetch kFirst>
static void product_panels(const ProductArgs& args, int panel) {
  product_rows<Kind, P, kFirst>(args, 0, panel, {});
  int64_t row = kMaxRows;
  if (args.ahead != nullptr && row < args.rows) {
    // Spread over the tiles that are left, since memory is slower than they are.
    const int64_t tiles = (args.rows - 1) / kMaxRows;
    const int64_t bytes = args.steps * P * Kind::kStepBytes;
    const int lines = static_cast<int>((P * Kind::kStepBytes + 64 * tiles - 1) / (64 * tiles));
    const unsigned char* next = static_cast<const unsigned char*>(args.ahead) + panel * args.steps * Kind::kStepBytes;
    const unsigned char* end = next + bytes;
    for (; row < args.rows && next < end; row += kMaxRows, next += args.steps * lines * 64)
      product_rows<Kind, P, Fetch::kAhead>(args, row, panel, {next, lines});
  }
  for (; row < args.rows; row += kMaxRows) product_rows<Kind, P, Fetch::kNone>(args, row, panel, {});
}

template <class Kind, Fetch kFirst = Fetch::kOwn, int kPanels = kMaxPanels>
static void product(const ProductArgs& args) {
  int panel = 0;
  for (; panel + kPanels <= args.panels; panel += kPanels) product_panels<Kind, kPanels, kFirst>(args, panel);
  if constexpr (kPanels > 2)
    for (; panel + 2 <= args.panels; panel += 2) product_panels<Kind, 2, kFirst>(args, panel);
  for (; panel < args.panels; ++panel) product_panels<Kind, 1, kFirst>(args, panel);
}

static void epilogue(const EpilogueArgs& args) {
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* tile = args.tile + r * args.tile_stride;
    float* y = args.y + r * args.y_stride;
    for (int64_t j = 0; j < args.columns; j += 16) {
      const int n = args.columns - j < 16 ? static_cast<int>(args.columns - j) : 16;
      F v = f_load(tile + j);
      if (args.bias != nullptr) v = f_add(v, f_load_n(args.bias + j, n, 0.0f));
      if (args.add_to_y) v = f_add(v, f_load_n(y + j, n, 0.0f));
      f_store_n(y + j, v, n);
    }
  }
}
