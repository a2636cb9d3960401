// What the processor can do at best by this instruction set: the loops that benchmarks hold their figures against.

// Independent chains: those of the widest register tile, or 12, whichever is more (a latency of up to 6 cycles times 2
// units a cycle).
inline constexpr int kLimitChains = kMaxRows * kMaxPanels < 12 ? 12 : kMaxRows * kMaxPanels;

// Products out of registers; the operations done, a multiply-add being two.
template <class Kind, int kProductsAStep>
static int64_t only_products(int64_t rounds, float* out) {
  F acc[kLimitChains];
#pragma GCC unroll 24
  for (int i = 0; i < kLimitChains; ++i) acc[i] = f_set1(static_cast<float>(i));  // alike, they would become one
  // The factors' values are no matter, as long as they are not known here.
  const typename Kind::W w = Kind::load(reinterpret_cast<const unsigned char*>(out));
  const typename Kind::X x = Kind::set1(reinterpret_cast<const typename Kind::A*>(out));
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int i = 0; i < kLimitChains; ++i) acc[i] = Kind::step(acc[i], x, w);
  }
  for (int i = 0; i < kLimitChains; ++i) f_store(out, f_add(f_load(out), acc[i]));
  return rounds * kLimitChains * 16 * kProductsAStep * 2;
}

// Reads memory front to back; `bytes` is a multiple of 512.
static void only_reads(const void* memory, int64_t bytes, float* out) {
  const auto* p = static_cast<const float*>(memory);
  F acc[8];
  for (int i = 0; i < 8; ++i) acc[i] = f_zero();
  for (int64_t at = 0; at < bytes / 4; at += 8 * 16)
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) acc[i] = f_add(acc[i], f_load(p + at + 16 * i));
  for (int i = 0; i < 8; ++i) f_store(out, f_add(f_load(out), acc[i]));
}
