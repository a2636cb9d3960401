// SIGTERM and SIGINT, taken by a thread that waits for them: no work in handlers.
#pragma once

#include <functional>
#include <thread>

namespace unspool {

class SignalWatcher {
 public:
  // To be made before any other thread, which then inherit that the signals are blocked. `on_first` runs on the
  // watcher's thread at the first signal; the second one ends the process at once.
  explicit SignalWatcher(std::function<void()> on_first);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void run(const std::function<void()>& on_first);
  std::thread thread_;
};

}  // namespace unspool
