// --sse-keep-alive-interval: a comment line on streams that have been silent, so that proxies keep them open.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace unspool {

class ActiveRequest;

class KeepAlive {
 public:
  explicit KeepAlive(double interval_s);
  ~KeepAlive();
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;
  void watch(const std::shared_ptr<ActiveRequest>& request);

 private:
  void run();
  double interval_s_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::weak_ptr<ActiveRequest>> streams_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace unspool
