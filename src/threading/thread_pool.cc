#include "threading/thread_pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "threading/affinity.h"

namespace unspool {
namespace {

// Round to nearest even, all exceptions masked, flush to zero, denormals are zero.
constexpr unsigned kContractMxcsr = 0x1F80 | 0x8000 | 0x0040;

// How long a thread spins before it parks. The regions of one step follow each other within a few microseconds, and to
// wake a parked thread takes 5 to 50; beyond about that, spinning costs others (I/O threads, a trainer on the same
// cores) more than it saves.
constexpr std::chrono::microseconds kSpinTime{40};

// The clock is read once in so many pauses: a pause takes 10 to 50 ns, a reading about 25.
constexpr int kPausesPerClockReading = 32;

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

void futex_wait(Word& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(Word& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A word that threads wait on, and how many of them are parked. Sequentially consistent where a change meets a parking
// thread: either the thread sees the change or the changer sees the thread.
struct alignas(64) WaitWord {
  Word value{0};
  Word parked{0};

  void wake() {
    if (parked.load(std::memory_order_seq_cst) != 0) futex_wake_all(value);
  }

  // Returns once `ready(value)`. The word may pass through other values that nobody is woken for.
  template <class Ready>
  void wait(Ready ready) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < kPausesPerClockReading; ++i) {
        if (ready(value.load(std::memory_order_acquire))) return;
        _mm_pause();
      }
    } while (std::chrono::steady_clock::now() < deadline);
    parked.fetch_add(1, std::memory_order_seq_cst);
    for (uint32_t seen = value.load(std::memory_order_seq_cst); !ready(seen);
         seen = value.load(std::memory_order_seq_cst)) {
      futex_wait(value, seen);
    }
    parked.fetch_sub(1, std::memory_order_relaxed);
  }
};

}  // namespace

struct ThreadPool::Impl {
  ~Impl() {
    stopping.store(true, std::memory_order_relaxed);
    generation.value.fetch_add(1, std::memory_order_seq_cst);
    generation.wake();
    for (std::thread& worker : workers) worker.join();
  }

  void run_part(int thread) {
    try {
      (*region)(thread);
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
    }
  }

  // False where the region is over: the caller did not wait for this thread.
  bool join() {
    uint32_t seen = attendance.value.load(std::memory_order_acquire);
    while ((seen & kOpen) != 0)
      if (attendance.value.compare_exchange_weak(seen, seen + kInside, std::memory_order_acquire)) return true;
    return false;
  }
  void leave() {
    attendance.value.fetch_add(kLeft - kInside, std::memory_order_seq_cst);
    attendance.wake();
  }

  void work(int thread, std::optional<int> core) {
    pthread_setname_np(pthread_self(), "compute");
    if (core) pin_this_thread(*core);
    const FloatModeGuard mode;
    for (uint32_t done = 0;;) {
      // Later, not merely other: who joins a region before its generation is counted has `done` ahead of it until then,
      // and must not run it again.
      generation.wait([done](uint32_t value) { return static_cast<int32_t>(value - done) > 0; });
      if (stopping.load(std::memory_order_relaxed)) return;
      done = generation.value.load(std::memory_order_acquire);
      if (!join()) continue;
      done = number;  // perhaps a later region than that which woke this thread
      run_part(thread);
      leave();
    }
  }

  // Attendance of a region: workers inside, those that have left again, and whether others may still join.
  static constexpr uint32_t kInside = 1, kLeft = 1u << 16, kInsideMask = kLeft - 1, kOpen = 1u << 31;

  WaitWord generation;  // counts regions; a change starts one
  WaitWord attendance;
  std::atomic<bool> stopping{false};
  std::atomic<bool> running{false};
  // Written before the region opens, or by the thread that set `failed` before it leaves the region.
  std::optional<RegionRef> region;
  uint32_t number = 0;  // what the generation becomes by this region
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  std::vector<std::thread> workers;
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()), threads_(threads) {
  UNSPOOL_CHECK(threads >= 1, "at least one thread, got {}", threads);
  const std::vector<int> mask = affinity_mask();
  const bool pin = mask.size() == static_cast<size_t>(threads);
  impl_->workers.reserve(static_cast<size_t>(threads) - 1);
  for (int thread = 1; thread < threads; ++thread) {
    // The first core is left to the caller.
    const auto core = pin ? std::optional<int>(mask[static_cast<size_t>(thread)]) : std::nullopt;
    impl_->workers.emplace_back([impl = impl_.get(), thread, core] { impl->work(thread, core); });
  }
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::run_region(RegionRef region, bool everyone) {
  Impl& impl = *impl_;
  UNSPOOL_CHECK(!impl.running.exchange(true, std::memory_order_acquire), "a region runs within or beside another");
  impl.region = region;
  if (!impl.workers.empty()) {
    impl.number = impl.generation.value.load(std::memory_order_relaxed) + 1;
    impl.attendance.value.store(Impl::kOpen, std::memory_order_release);
    impl.generation.value.fetch_add(1, std::memory_order_seq_cst);
    impl.generation.wake();
  }
  {
    const FloatModeGuard mode;
    impl.run_part(0);
  }
  if (!impl.workers.empty()) {
    if (everyone) {
      const auto all = static_cast<uint32_t>(impl.workers.size()) * Impl::kLeft;
      impl.attendance.wait([all](uint32_t value) { return (value & ~Impl::kOpen) == all; });
    }
    // Who has not come by now finds nothing to do. Where others use the same cores, that saves waiting for their time
    // slice to end.
    impl.attendance.value.fetch_and(~Impl::kOpen, std::memory_order_seq_cst);
    impl.attendance.wait([](uint32_t value) { return (value & Impl::kInsideMask) == 0; });
  }
  std::exception_ptr failure;
  if (impl.failed.exchange(false, std::memory_order_relaxed)) failure = std::exchange(impl.failure, nullptr);
  impl.running.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

FloatModeGuard::FloatModeGuard() : saved_(_mm_getcsr()) {
  _mm_setcsr(kContractMxcsr);
}
FloatModeGuard::~FloatModeGuard() {
  _mm_setcsr(saved_);
}

}  // namespace unspool
