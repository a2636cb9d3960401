// A server on a free port with a few routes; handlers park their responders here for tests to answer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "test_client.h"

namespace unspool::http {

class ServerTest : public testing::Test {
 protected:
  static size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  // Polls; tests wait for other threads, and five seconds is for ever.
  template <class Condition>
  static bool eventually(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  void start(ServerOptions options = {}) {
    options.host = "127.0.0.1";
    options.port = 0;
    server_ = std::make_unique<Server>(std::move(options));
    server_->route("GET", "/health", [](HttpRequest, auto responder) { responder->send({}); });
    server_->route("POST", "/echo", [](HttpRequest request, auto responder) {
      responder->send({200, "application/json", request.body, {{"x-echo", "yes"}}});
    });
    server_->route("POST", "/park", [this](HttpRequest, auto responder) { park(std::move(responder)); });
    server_->route("POST", "/drop", [](HttpRequest, auto) {});
    server_->route("POST", "/throw", [](HttpRequest, auto) { throw std::runtime_error("on purpose"); });
    server_->set_observer([this](std::string_view method, std::string_view route, int status, double) {
      const std::lock_guard lock(mutex_);
      observed_.push_back(std::string(method) + " " + std::string(route) + " " + std::to_string(status));
    });
    const Status status = server_->start();
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  void park(std::shared_ptr<Responder> responder) {
    const std::lock_guard lock(mutex_);
    parked_.push_back(std::move(responder));
    parked_changed_.notify_all();
  }
  // The parked responders, once there are `count`.
  std::vector<std::shared_ptr<Responder>> parked(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(parked_changed_.wait_for(lock, std::chrono::seconds(5), [&] { return parked_.size() >= count; }));
    return std::exchange(parked_, {});
  }
  std::vector<std::string> observed() {
    const std::lock_guard lock(mutex_);
    return observed_;
  }
  TestClient connect() { return TestClient(server_->port()); }

  std::mutex mutex_;
  std::condition_variable parked_changed_;
  std::vector<std::shared_ptr<Responder>> parked_;
  std::vector<std::string> observed_;
  std::unique_ptr<Server> server_;  // destroyed first: its threads use all above
};

}  // namespace unspool::http
