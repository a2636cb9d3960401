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

template <class Kind, int R, int P, bool kPrefetch>
static inline __attribute__((always_inline)) void product_tile(const ProductArgs& args, int64_t row, int panel) {
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
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) b[p] = static_cast<const unsigned char*>(chunk[p]);
    int64_t s = 0;
    // Runs to step `end`, prefetching `ahead` bytes from where it reads.
    const auto run = [&](int64_t end, int64_t ahead) __attribute__((always_inline)) {
      for (; s < end; ++s, ++a) {
        typename Kind::W w[P];
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          w[p] = Kind::load(b[p]);
          if constexpr (kPrefetch) __builtin_prefetch(b[p] + ahead, 0, 2);
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
    const int64_t ahead = kPrefetchSteps * b_step;
    if constexpr (kPrefetch) run(n - kPrefetchSteps, ahead);
    run(n, ahead + args.next_bytes);
    done += n;
  }
  float* c = args.c + row * args.c_stride + static_cast<int64_t>(panel) * 16;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) f_store(c + r * args.c_stride + p * 16, acc[r][p]);
}

template <class Kind, int P>
static void product_panels(const ProductArgs& args, int panel) {
  int64_t row = 0;
  // Only the first rows meet weights that are still in memory; the others find them in the cache.
  for (; row + kMaxRows <= args.rows; row += kMaxRows) {
    if (row == 0)
      product_tile<Kind, kMaxRows, P, true>(args, row, panel);
    else
      product_tile<Kind, kMaxRows, P, false>(args, row, panel);
  }
  switch (args.rows - row) {
    case 1:
      product_tile<Kind, 1, P, true>(args, row, panel);
      break;
    case 2:
      if constexpr (kMaxRows > 2) product_tile<Kind, 2, P, true>(args, row, panel);
      break;
    case 3:
      if constexpr (kMaxRows > 3) product_tile<Kind, 3, P, true>(args, row, panel);
      break;
    case 4:
      if constexpr (kMaxRows > 4) product_tile<Kind, 4, P, true>(args, row, panel);
      break;
    case 5:
      if constexpr (kMaxRows > 5) product_tile<Kind, 5, P, true>(args, row, panel);
      break;
    default:
      break;
  }
}

template <class Kind>
static void product(const ProductArgs& args) {
  int panel = 0;
  for (; panel + kMaxPanels <= args.panels; panel += kMaxPanels) product_panels<Kind, kMaxPanels>(args, panel);
  if constexpr (kMaxPanels > 2)
    for (; panel + 2 <= args.panels; panel += 2) product_panels<Kind, 2>(args, panel);
  for (; panel < args.panels; ++panel) product_panels<Kind, 1>(args, panel);
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
