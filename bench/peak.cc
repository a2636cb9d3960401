// What this machine can do at best: bf16 and float32 dot products out of registers, and reading out of memory.
//
//   peak [THREADS]     one line of JSON: {"threads":2,"bf16_gflops":468.1,"f32_gflops":234.0,"read_gbps":32.5}
//
// A figure is 0 where the processor lacks the instruction. Instruction sets are chosen here by target attributes, so
// that this file, like every other outside the kernels, is compiled for the baseline.
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<double(int thread)>;  // returns the units it did

// Independent accumulators: latency 4 to 6 cycles times 2 units a cycle is at most 12.
constexpr int kChains = 12;
constexpr int64_t kRounds = 10'000'000;
constexpr size_t kReadBytes = size_t{512} << 20;  // far beyond any cache
constexpr size_t kHugePage = size_t{2} << 20;

volatile float sink;  // results end here, so that no work is left out

// Units a second of all threads together; the best of `repeats`, since neighbours only ever take away.
double best_rate(int threads, int repeats, const Work& work) {
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::vector<double> units(threads);
    std::vector<std::thread> pool;
    std::barrier start(threads + 1);
    for (int i = 0; i < threads; ++i) {
      pool.emplace_back([&, i] {
        start.arrive_and_wait();
        units[i] = work(i);
      });
    }
    start.arrive_and_wait();
    const auto began = Clock::now();
    for (auto& thread : pool) thread.join();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    double sum = 0;
    for (const double u : units) sum += u;
    best = std::max(best, sum / seconds);
  }
  return best;
}

__attribute__((target("avx512f,avx512bw,avx512bf16"))) double bf16_products() {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512bh x = (__m512bh)_mm512_set1_epi16(0x3c00);  // 2^-7
  for (int64_t i = 0; i < kRounds; ++i) {
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x);
    asm volatile("" : "+v"(x));  // x may have changed: nothing is taken out of the loop
  }
  for (const auto& sum : sums) sink = _mm512_cvtss_f32(sum);
  return double(kRounds) * kChains * 64;  // 32 multiply-adds, two operations each
}

__attribute__((target("avx512f"))) double f32_products_512() {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  __m512 x = _mm512_set1_ps(0.01f);
  for (int64_t i = 0; i < kRounds; ++i) {
    for (auto& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
    asm volatile("" : "+v"(x));
  }
  for (const auto& sum : sums) sink = _mm512_cvtss_f32(sum);
  return double(kRounds) * kChains * 32;
}

__attribute__((target("avx2,fma"))) double f32_products_256() {
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  __m256 x = _mm256_set1_ps(0.01f);
  for (int64_t i = 0; i < kRounds; ++i) {
    for (auto& sum : sums) sum = _mm256_fmadd_ps(x, x, sum);
    asm volatile("" : "+x"(x));
  }
  for (const auto& sum : sums) sink = _mm256_cvtss_f32(sum);
  return double(kRounds) * kChains * 16;
}

// Reads the buffer once. 32-byte loads reach the bandwidth of memory as well as 64-byte ones.
__attribute__((target("avx2"))) double read_all(const char* buffer) {
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (size_t at = 0; at < kReadBytes; at += sizeof sums) {
    for (int k = 0; k < 8; ++k) {
      const auto* line = reinterpret_cast<const __m256i*>(buffer + at) + k;
      sums[k] = _mm256_add_epi32(sums[k], _mm256_load_si256(line));
    }
  }
  for (int k = 1; k < 8; ++k) sums[0] = _mm256_add_epi32(sums[0], sums[k]);
  sink = float(_mm256_extract_epi32(sums[0], 0));
  return double(kReadBytes);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : int(std::thread::hardware_concurrency());
  if (threads < 1 || !__builtin_cpu_supports("avx2")) {
    std::fprintf(stderr, "peak: needs a positive number of threads and AVX2\n");
    return 1;
  }
  double bf16 = 0;
  if (__builtin_cpu_supports("avx512bf16")) bf16 = best_rate(threads, 5, [](int) { return bf16_products(); });
  const bool wide = __builtin_cpu_supports("avx512f");
  const double f32 = best_rate(threads, 5, [&](int) { return wide ? f32_products_512() : f32_products_256(); });

  std::vector<char*> buffers(threads);
  for (auto& buffer : buffers) {
    buffer = static_cast<char*>(std::aligned_alloc(kHugePage, kReadBytes));
    madvise(buffer, kReadBytes, MADV_HUGEPAGE);
    std::memset(buffer, 1, kReadBytes);
  }
  const double read = best_rate(threads, 11, [&](int thread) { return read_all(buffers[thread]); });
  for (auto* buffer : buffers) std::free(buffer);
  std::printf("{\"threads\":%d,\"bf16_gflops\":%.1f,\"f32_gflops\":%.1f,\"read_gbps\":%.2f}\n", threads, bf16 / 1e9,
              f32 / 1e9, read / 1e9);
}
