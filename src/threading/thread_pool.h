// The compute pool: fixed threads that run one parallel region at a time and park when idle.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace unspool {

// A reference to a callable that outlives the call (std::function would allocate on the hot path).
class RegionRef {
 public:
  template <class F>
  explicit RegionRef(F& f) : object_(&f), call_([](void* o, int thread) { (*static_cast<F*>(o))(thread); }) {}
  void operator()(int thread) const { call_(object_, thread); }

 private:
  void* object_;
  void (*call_)(void*, int);
};

class ThreadPool {
 public:
  // `threads` in all, the caller's included: threads-1 workers are started, each pinned to one of the process's allowed cores
  // when there are enough of them. Every worker runs with the arithmetic contract's MXCSR (nearest, FTZ, DAZ).
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  // Runs f(thread) once on every thread, 0 being the caller, and returns when all have. Not reentrant; one caller at a time.
  template <class F>
  void run(F&& f) {
    auto& callable = f;
    run_region(RegionRef(callable));
  }

  // Runs f(index, thread) for every index in [0, count), handed out one by one in ascending order.
  // An exception in f is rethrown on the caller after every thread has left the region.
  template <class F>
  void parallel_for(int64_t count, F&& f);

 private:
  void run_region(RegionRef region);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int threads_;
};

// Sets MXCSR to round-to-nearest-even with FTZ and DAZ, and restores it: the contract's mode, for the engine's and sampler's threads.
class FloatModeGuard {
 public:
  FloatModeGuard();
  ~FloatModeGuard();
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;

 private:
  unsigned saved_;
};

// Cores this process may use (the affinity mask and the cgroup's cpu quota).
int allowed_cores();

}  // namespace unspool
