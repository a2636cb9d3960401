#include "backend/cpu/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "tensor/buffer.h"

namespace unspool::cpu {
namespace {

constexpr int kTries = 7;
constexpr double kTrySeconds = 0.02;                 // long against the start of a region, short against a time slice
constexpr size_t kBytesAThread = size_t{128} << 20;  // beyond any cache of its core, and of most sockets

// Units a second, `work(thread)` saying how many it did.
template <class Work>
double best_rate(ThreadPool& pool, Work work) {
  std::vector<double> units(static_cast<size_t>(pool.size()));
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double started = monotonic_seconds();
    pool.run([&](int thread) { units[static_cast<size_t>(thread)] = work(thread); });
    const double seconds = monotonic_seconds() - started;
    double sum = 0;
    for (const double u : units) sum += u;
    best = std::max(best, sum / seconds);
  }
  return best;
}

double products(ThreadPool& pool, int64_t (*only_products)(int64_t, float*)) {
  return best_rate(pool, [&](int) {
    alignas(64) float out[kPanel] = {};
    double done = 0;
    for (const double end = monotonic_seconds() + kTrySeconds; monotonic_seconds() < end;)
      done += static_cast<double>(only_products(10'000, out));
    return done;
  });
}

}  // namespace

MachineLimits measure_limits(ThreadPool& pool, const KernelTable& kernels) {
  MachineLimits limits;
  limits.bf16_operations = products(pool, kernels.only_bf16_products);
  limits.f32_operations = products(pool, kernels.only_f32_products);

  std::vector<Buffer> buffers;
  for (int i = 0; i < pool.size(); ++i) {
    auto buffer = Buffer::allocate(kBytesAThread);
    UNSPOOL_CHECK(buffer.ok(), "no memory to measure the reading of");
    std::memset(buffer->data(), 1, kBytesAThread);
    buffers.push_back(std::move(*buffer));
  }
  limits.read_bytes = best_rate(pool, [&](int thread) {
    alignas(64) float out[kPanel] = {};
    kernels.only_reads(buffers[static_cast<size_t>(thread)].data(), kBytesAThread, out);
    return static_cast<double>(kBytesAThread);
  });
  return limits;
}

}  // namespace unspool::cpu
