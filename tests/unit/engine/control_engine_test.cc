// The control plane from other threads: what returns at once, what waits, and many clients at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <thread>

#include "base/clock.h"
#include "control_harness.h"
#include "engine/engine.h"

namespace unspool {
namespace {

// One request's outputs, as another thread sees them.
class Client {
 public:
  OutputSink sink() {
    return [this](RequestOutput output) {
      std::lock_guard lock(mutex_);
      for (const auto& delta : output.deltas) num_tokens_ += static_cast<int>(delta.token_ids.size());
      num_finished_ += output.finished ? 1 : 0;
      changed_.notify_all();
    };
  }
  bool wait_for_tokens(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return num_tokens_ >= count; });
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return num_finished_ > 0; });
  }
  int num_finished() {
    std::lock_guard lock(mutex_);
    return num_finished_;
  }
  bool left = false;  // without waiting for the end; its own thread's

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_tokens_ = 0;
  int num_finished_ = 0;
};

class ControlEngine : public ::testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig config = ControlHarness::sleepy();
    config.max_model_len = 1000000;
    config.num_blocks = 4000;
    return config;
  }
  EngineRequest request(int max_tokens, uint64_t prompt, OutputSink sink) {
    auto request = request_of(random_prompt(12, prompt), max_tokens);
    request.params.logprobs.reset();
    request.external_id = std::to_string(prompt);
    request.arrival_s = monotonic_seconds();
    request.sink = std::move(sink);
    return request;
  }
  // The command's answer, waited for.
  template <class T, class F>
  T call(F command) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    command([promise](T result) { promise->set_value(std::move(result)); });
    if (future.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      ADD_FAILURE() << "no answer";
      return internal_error("no answer");
    }
    return future.get();
  }
  Result<PauseReply> pause(PauseMode mode) {
    return call<Result<PauseReply>>([&](auto reply) { engine_.control().pause(mode, true, reply); });
  }
  Result<PauseReply> resume() {
    return call<Result<PauseReply>>([&](auto reply) { engine_.control().resume(reply); });
  }
  Result<SleepReply> sleep(int level, PauseMode mode) {
    return call<Result<SleepReply>>([&](auto reply) { engine_.control().sleep(level, mode, reply); });
  }
  Result<WakeReply> wake() {
    return call<Result<WakeReply>>([&](auto reply) { engine_.control().wake_up({}, reply); });
  }
  Status reload(const std::string& path) {
    return call<Status>([&](auto reply) { engine_.control().reload_weights({.weights_path = path}, reply); });
  }

  FakeExecutor executor_{4000, 8};
  FakeMemory memory_{executor_};
  ThreadPool pool_{2};
  Sampler sampler_{reference_vocab_kernels(), FakeExecutor::kVocab};
  MetricsRegistry metrics_;
  Engine engine_{config(), {&executor_, &sampler_, &pool_, nullptr, &metrics_, &memory_}};
};

TEST_F(ControlEngine, OnlyTheWaitWaits) {
  Client endless;
  engine_.add_request(request(1000000, 1, endless.sink()));
  ASSERT_TRUE(endless.wait_for_tokens(3));
  std::promise<Result<PauseReply>> waited;
  engine_.control().pause(PauseMode::kWait, true, [&](auto reply) { waited.set_value(std::move(reply)); });
  EXPECT_TRUE(reload("a").ok());
  EXPECT_TRUE(engine_.control().status().paused);
  auto future = waited.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_TRUE(pause(PauseMode::kAbort).ok());
  EXPECT_EQ(endless.num_finished(), 1);
  EXPECT_TRUE(future.get().ok());
}

TEST_F(ControlEngine, TheStatusIsThereBeforeTheAnswer) {
  bool asleep = false;
  const auto slept = call<Result<SleepReply>>([&](auto reply) {
    engine_.control().sleep(1, PauseMode::kAbort, [&, reply](auto result) {
      asleep = engine_.control().status().weights_asleep;
      reply(std::move(result));
    });
  });
  EXPECT_TRUE(slept.ok());
  EXPECT_TRUE(asleep);
}

TEST_F(ControlEngine, ShutdownDoesNotWaitForWhatIsPaused) {
  Client frozen;
  engine_.add_request(request(1000000, 1, frozen.sink()));
  ASSERT_TRUE(frozen.wait_for_tokens(3));
  EXPECT_TRUE(pause(PauseMode::kKeep).ok());
  const double start_s = monotonic_seconds();
  engine_.shutdown(30.0);
  EXPECT_LT(monotonic_seconds() - start_s, 10.0);
  EXPECT_EQ(frozen.num_finished(), 1);
  EXPECT_EQ(resume().error().kind, ErrorKind::kUnavailable);
}

TEST_F(ControlEngine, ShutdownAnswersWhoWaits) {
  Client endless;
  engine_.add_request(request(1000000, 1, endless.sink()));
  ASSERT_TRUE(endless.wait_for_tokens(3));
  std::atomic<int> refused = 0;
  engine_.control().sleep(1, PauseMode::kWait, [&](auto reply) {
    if (!reply.ok() && reply.error().kind == ErrorKind::kUnavailable) ++refused;
  });
  engine_.shutdown(0.05);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(endless.num_finished(), 1);
}

// Clients that generate, stay or leave, under trainers that pause, sleep, wake and reload.
TEST_F(ControlEngine, Hammer) {
  constexpr int kCommands = 400;
  std::atomic<bool> stop = false;
  std::atomic<int> asked = 0, answered = 0;
  std::mutex mutex;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::thread> threads;
  const auto count = [&](const auto&) { ++answered; };
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 generator(t);
      while (!stop) {
        auto client = std::make_unique<Client>();
        Client& it = *client;
        {
          std::lock_guard lock(mutex);
          clients.push_back(std::move(client));
        }
        const auto id =
            engine_.add_request(request(1 + static_cast<int>(generator() % 40), generator() % 30, it.sink()));
        std::this_thread::sleep_for(std::chrono::microseconds(generator() % 500));
        if (generator() % 8 == 0) engine_.abort_requests({std::to_string(generator() % 30)});
        if (generator() % 8 == 0) {
          engine_.drop_request(id);
          it.left = true;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 generator(100 + t);
      EngineControl& control = engine_.control();
      const auto below = [&](int limit) { return static_cast<int>(generator() % static_cast<uint64_t>(limit)); };
      for (int i = 0; i < kCommands; ++i) {
        const auto mode = static_cast<PauseMode>(below(3));
        ++asked;
        switch (below(9)) {
          case 0:
            control.pause(mode, below(2) == 0, count);
            break;
          case 1:
            control.sleep(below(3), mode, count);
            break;
          case 2:
          case 3:
            control.wake_up(
                below(2) == 0 ? std::optional<std::vector<std::string>>() : std::vector<std::string>{"weights"}, count);
            break;
          case 4:
            control.resume(count);
            break;
          case 5:
            control.reset_prefix_cache(below(2) == 0, count);
            break;
          case 6:
            control.release_kv_cache_memory(count);
            break;
          default:
            control.reload_weights({.weights_path = below(2) == 0 ? "a" : "b"}, count);
        }
        EXPECT_EQ(control.status().weight_version, "default");
        std::this_thread::sleep_for(std::chrono::microseconds(200 + below(2000)));
      }
    });
  }
  threads[3].join();
  threads[4].join();
  EXPECT_TRUE(wake().ok());
  EXPECT_TRUE(reload("a").ok());
  stop = true;
  for (int t = 0; t < 3; ++t) threads[t].join();
  for (auto& client : clients) ASSERT_TRUE(client->left || client->wait());
  EXPECT_TRUE(pause(PauseMode::kAbort).ok());
  EXPECT_EQ(answered, asked);
  EXPECT_TRUE(engine_.healthy());
  EXPECT_EQ(engine_.stats().running + engine_.stats().waiting, 0);
  EXPECT_EQ(engine_.stats().kv_cache_usage, 0.0);
  for (auto& client : clients) EXPECT_TRUE(client->num_finished() == 1 || client->left);
  for (auto& client : clients) EXPECT_LE(client->num_finished(), 1);
  engine_.shutdown(1.0);
}

}  // namespace
}  // namespace unspool
