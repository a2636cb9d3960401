// What the kernel benchmarks share: a backend, its limits measured in the same process, and counters that name the
// share.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_limits.h"

namespace unspool::bench {

// UNSPOOL_ISA forces an instruction set, UNSPOOL_THREADS a number of threads; all cores where unset.
inline ThreadPool& pool() {
  static const char* threads = std::getenv("UNSPOOL_THREADS");
  static ThreadPool made(threads == nullptr ? allowed_cores() : std::atoi(threads));
  return made;
}
inline cpu::CpuBackend& backend() {
  static const char* isa = std::getenv("UNSPOOL_ISA");
  static const auto made = cpu::CpuBackend::create(pool(), isa == nullptr ? "" : isa).value();
  return *made;
}
inline const cpu::MachineLimits& limits() {
  static const cpu::MachineLimits measured = cpu::measure_limits(pool(), backend().kernels());
  return measured;
}

inline std::vector<float> values(int64_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = uniform(random);
  return v;
}

// Multiplications and additions, and the bytes that have to come from memory once, with their shares of what the
// machine does at best.
inline void report(benchmark::State& state, double operations, double bytes, bool bf16 = true) {
  const auto rounds = static_cast<double>(state.iterations());
  const auto rate = [&](const char* name, double units, double unit) {
    state.counters[name] = benchmark::Counter(units * rounds / unit, benchmark::Counter::kIsRate);
  };
  rate("GFLOP/s", operations, 1e9);
  rate("GB/s", bytes, 1e9);
  rate("of_products", operations, bf16 ? limits().bf16_operations : limits().f32_operations);
  rate("of_reads", bytes, limits().read_bytes);
}

// As Google Benchmark's main, with the machine's limits in the context of the JSON: before and after, so that a reader
// sees whether the machine was the same all along.
inline int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const auto add = [](const char* name, double value) {
    benchmark::AddCustomContext(name, std::to_string(value / 1e9));
  };
  add("bf16_gflops", limits().bf16_operations);
  add("f32_gflops", limits().f32_operations);
  add("read_gbps", limits().read_bytes);
  benchmark::AddCustomContext("threads", std::to_string(pool().size()));
  benchmark::AddCustomContext("instruction_set", std::string(backend().instruction_set()));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace unspool::bench
