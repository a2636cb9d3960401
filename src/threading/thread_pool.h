// The compute pool: fixed threads that run one parallel region at a time and park when idle.
#pragma once

#include <atomic>
#include <cstdint>
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
  // `threads` in all, the caller's included: threads-1 workers are started. When the pool takes every core of the
  // process's affinity mask, each worker is pinned to one (the caller never is); when it leaves some free, the
  // scheduler avoids busy cores better than a fixed choice would, which other processes may have made too. Regions run
  // with the arithmetic contract's MXCSR (nearest, FTZ, DAZ) on every thread; the caller's own is restored.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  // Runs f(thread) once on every thread, 0 being the caller, and returns when all have. Not reentrant; one caller at a
  // time. The first exception is rethrown on the caller after every thread has left the region.
  template <class F>
  void run(F&& f) {
    auto& callable = f;
    run_region(RegionRef(callable), true);
  }

  // Runs f(index, thread) for every index in [0, count), handed out one by one in ascending order. A thread whose f
  // throws takes no further index; the others go on. A thread that comes when all is done is not waited for.
  template <class F>
  void parallel_for(int64_t count, F&& f);

 private:
  // With `everyone`, it ends when every thread has run the region once; else when the caller has, and those who joined.
  void run_region(RegionRef region, bool everyone);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int threads_;
};

// Sets MXCSR to round-to-nearest-even with FTZ and DAZ, and restores it: the contract's mode, for the engine's and
// sampler's threads.
class FloatModeGuard {
 public:
  FloatModeGuard();
  ~FloatModeGuard();
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;

 private:
  unsigned saved_;
};

// Cores this process may use (the affinity mask and the cgroup's cpu quota, rounded up).
int allowed_cores();

template <class F>
void ThreadPool::parallel_for(int64_t count, F&& f) {
  if (count <= 0) return;
  if (count == 1 || threads_ == 1) {  // not worth waking anyone
    FloatModeGuard mode;
    for (int64_t index = 0; index < count; ++index) f(index, 0);
    return;
  }
  // On its own cache line: the threads contend for it while the caller's frame is read. Relaxed is enough, since a
  // region's start and end order everything else.
  alignas(64) std::atomic<int64_t> next{0};
  auto take = [&](int thread) {
    while (true) {
      const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      f(index, thread);
    }
  };
  run_region(RegionRef(take), false);
}

}  // namespace unspool
