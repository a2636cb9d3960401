#include "engine/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/ids.h"
#include "base/log.h"
#include "engine/control_client.h"
#include "engine/control_plane.h"
#include "engine/engine_core.h"
#include "threading/thread_pool.h"

namespace unspool {

namespace {

// What the engine thread is asked to do between two steps. Copyable, as std::function is.
using Message = std::function<void(EngineCore&)>;

constexpr double kLongestWaitS = 1e6;  // what the clock's arithmetic can take

void refuse(const OutputSink& sink) {
  RequestOutput output;
  output.finished = true;
  output.error = Error{ErrorKind::kUnavailable, "The server is shutting down.", {}};
  if (sink) sink(std::move(output));
}

}  // namespace

struct Engine::Impl {
  Impl(EngineConfig config, EngineDependencies dependencies)
      : core(std::move(config), dependencies, random_u64()),
        control(core, dependencies),
        client([this](ControlClient::Message message) { return post_to_control(std::move(message)); }, control),
        thread([this] { run(); }) {}
  // A grammar may be ready at any time.
  ~Impl() { core.set_post({}); }

  bool post(Message message) {
    {
      std::lock_guard lock(mutex);
      if (stopped) return false;
      inbox.push_back(std::move(message));
    }
    wake.notify_one();
    return true;
  }
  bool post_to_control(ControlClient::Message message) {
    return post([this, message = std::move(message)](EngineCore&) { message(control); });
  }

  void run() {
    FloatModeGuard mode;
    core.set_post([this](Message message) { return post(std::move(message)); });
    std::vector<Message> messages;
    while (true) {
      {
        std::unique_lock lock(mutex);
        const bool rests = inbox.empty() && !core.has_work();
        idle = rests && core.num_unready() == 0;
        if (rests) {
          if (idle) became_idle.notify_all();
          if (stopped) return;
          wake.wait(lock, [this] { return !inbox.empty() || stopped; });
          if (inbox.empty()) return;
          idle = false;
        }
        messages.swap(inbox);
      }
      turn(messages);
      messages.clear();
    }
  }

  void turn(const std::vector<Message>& messages) {
    for (const auto& message : messages) {
      guarded([&] { message(core); });
      guarded([this] { control.settle(); });
    }
    guarded([this] {
      if (core.has_work()) core.step();
    });
    guarded([this] { control.settle(); });
  }

  // What throws here is beyond a step's fault: every request fails, and those that come.
  template <class F>
  void guarded(F f) {
    try {
      f();
    } catch (const std::exception& e) {
      log_error("the engine has failed: {}", e.what());
      core.fail_all();
      healthy = false;
    }
  }

  EngineCore core;       // the engine thread's
  ControlPlane control;  // likewise
  ControlClient client;
  std::atomic<uint64_t> next_id = 1;

  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable became_idle;
  std::vector<Message> inbox;
  bool idle = false;
  bool draining = false;  // takes no more requests
  bool stopped = false;   // takes no more messages; the thread ends when it has nothing left to do

  std::atomic<int> arriving = 0;  // requests in the inbox
  std::atomic<bool> healthy = true;

  std::mutex join_mutex;
  std::thread thread;  // last: it uses all of the above
};

Engine::Engine(EngineConfig config, EngineDependencies dependencies)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(dependencies))) {}

Engine::~Engine() {
  shutdown(0.0);
}

uint64_t Engine::add_request(EngineRequest request) {
  const uint64_t id = impl_->next_id++;
  {
    std::unique_lock lock(impl_->mutex);
    if (impl_->draining) {
      lock.unlock();
      refuse(request.sink);
      return id;
    }
    ++impl_->arriving;
    impl_->inbox.push_back([this, id, request = std::move(request)](EngineCore& core) mutable {
      core.add(id, std::move(request));
      --impl_->arriving;
    });
  }
  impl_->wake.notify_one();
  return id;
}

bool Engine::fits(int prompt_tokens) const {
  return impl_->core.fits(prompt_tokens);
}

void Engine::drop_request(uint64_t internal_id) {
  impl_->post([internal_id](EngineCore& core) { core.drop(internal_id); });
}

void Engine::abort_requests(std::vector<std::string> external_ids) {
  impl_->post([ids = std::move(external_ids)](EngineCore& core) { core.abort(ids); });
}

void Engine::abort_all() {
  impl_->post([](EngineCore& core) { core.abort_all(); });
}

Engine::Stats Engine::stats() const {
  const EngineConfig& config = impl_->core.config();
  const EngineLoad& load = impl_->core.load();
  return {.running = load.running,
          .waiting = load.waiting + impl_->arriving,
          .kv_cache_usage = load.kv_cache_usage,
          .capacity_tokens = config.num_blocks * config.block_size};
}

bool Engine::healthy() const {
  return impl_->healthy;
}

EngineControl& Engine::control() {
  return impl_->client;
}

const EngineConfig& Engine::config() const {
  return impl_->core.config();
}

void Engine::shutdown(double timeout_s) {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->draining = true;
    const auto is_idle = [this] { return impl_->idle && impl_->inbox.empty(); };
    impl_->became_idle.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, kLongestWaitS)), is_idle);
    if (!impl_->stopped) impl_->inbox.push_back([this](EngineCore&) { impl_->control.shut_down(); });
    impl_->stopped = true;
  }
  impl_->wake.notify_one();
  std::lock_guard join_lock(impl_->join_mutex);
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace unspool
