#include "server/keep_alive.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "server/active_request.h"

namespace unspool {

namespace {

constexpr double kShortestS = 0.1;  // less would keep a core busy
constexpr double kLongestS = 1e6;   // what the clock's arithmetic can take

}  // namespace

KeepAlive::KeepAlive(double interval_s)
    : interval_s_(std::clamp(interval_s, kShortestS, kLongestS)), thread_([this] { run(); }) {}

KeepAlive::~KeepAlive() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KeepAlive::watch(const std::shared_ptr<ActiveRequest>& request) {
  {
    const std::lock_guard lock(mutex_);
    streams_.push_back(request);
  }
  wake_.notify_one();
}

void KeepAlive::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !streams_.empty(); });
    if (stopping_) return;
    // Four looks an interval: a comment is late by a quarter of it at most.
    wake_.wait_for(lock, std::chrono::duration<double>(interval_s_ / 4), [this] { return stopping_; });
    if (stopping_) return;
    std::vector<std::weak_ptr<ActiveRequest>> streams = std::move(streams_);
    streams_.clear();
    lock.unlock();
    const double before_s = monotonic_seconds() - interval_s_;
    std::erase_if(streams, [&](const auto& weak) {
      const auto request = weak.lock();
      return !request || !request->keep_alive(before_s);
    });
    lock.lock();
    streams_.insert(streams_.end(), streams.begin(), streams.end());
  }
}

}  // namespace unspool
