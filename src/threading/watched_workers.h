// Threads for calls into code that may never return and cannot be stopped. Work that takes longer than it may is given
// up: its thread is left behind, at the lowest priority, and another takes its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace unspool {

class WatchedWorkers {
 public:
  enum class Outcome {
    kDone,
    kGivenUp,  // after its limit: the work may still be at it, so what it touches must be its own
    kRefused,  // as many threads as may be are left behind already
  };
  // Called once, on a thread of the workers; must not throw.
  using Callback = std::function<void(Outcome)>;

  // `niceness`: of the threads, where others go first. `stack_bytes`: of each, where code goes deeper than usual; what
  // work has touched of it goes back when it is done. 0: as threads have it.
  WatchedWorkers(int threads, int most_left_behind, int niceness = 0, size_t stack_bytes = 0);
  // Drops what is queued, without a call, and leaves behind what does not end at once.
  ~WatchedWorkers();
  WatchedWorkers(const WatchedWorkers&) = delete;
  WatchedWorkers& operator=(const WatchedWorkers&) = delete;

  // From any thread; returns at once. The limit is one of processor time: a machine that stands still takes none of it.
  // `work` must not throw and owns whatever it uses.
  void post(double limit_s, std::function<void()> work, Callback callback);

  int num_left_behind() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::thread watcher_;
};

// Of the whole process, also by workers that are no more. While there are any, a process must not end by way of exit():
// that would take away, under their feet, what libraries keep for themselves.
int threads_left_behind();

}  // namespace unspool
