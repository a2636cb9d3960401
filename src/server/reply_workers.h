// A few threads for work that others must not wait for: engine outputs become text and leave for the sockets here, not
// on the engine's thread, and large requests are read here, not on the sockets' threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace unspool {

class ReplyWorkers {
 public:
  explicit ReplyWorkers(int threads);
  ~ReplyWorkers();  // runs what is queued, then joins
  ReplyWorkers(const ReplyWorkers&) = delete;
  ReplyWorkers& operator=(const ReplyWorkers&) = delete;

  // From any thread; returns at once. Tasks must not throw.
  void post(std::function<void()> task);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace unspool
