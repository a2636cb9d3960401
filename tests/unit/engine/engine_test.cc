// The engine with its thread, on the fake model.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <thread>

#include "base/clock.h"
#include "core_harness.h"

namespace unspool {
namespace {

// Collects the outputs of one request and lets a test wait for the last.
class Client {
 public:
  OutputSink sink() {
    return [this](RequestOutput output) {
      std::lock_guard lock(mutex_);
      for (const auto& delta : output.deltas) {
        num_tokens += static_cast<int>(delta.token_ids.size());
        if (delta.finish_reason) reason = delta.finish_reason;
      }
      error = output.error;
      num_finished += output.finished ? 1 : 0;
      changed_.notify_all();
    };
  }
  bool wait(double seconds = 20.0) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return num_finished > 0; });
  }
  bool wait_for_tokens(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return num_tokens >= count; });
  }
  int tokens() {
    std::lock_guard lock(mutex_);
    return num_tokens;
  }

  int num_tokens = 0;
  int num_finished = 0;
  std::optional<FinishReason> reason;
  std::optional<Error> error;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class EngineTest : public ::testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig config = CoreHarness::roomy();
    config.max_model_len = 1000000;
    config.num_blocks = 4000;
    return config;
  }
  uint64_t add(Client& client, int max_tokens, const std::string& external_id = "x") {
    auto request = request_of(random_prompt(10, ++seed_), max_tokens);
    request.external_id = external_id;
    request.arrival_s = monotonic_seconds();
    request.sink = client.sink();
    return engine_.add_request(std::move(request));
  }

  FakeExecutor executor_{4000, 8};
  ThreadPool pool_{2};
  Sampler sampler_{reference_vocab_kernels(), FakeExecutor::kVocab};
  MetricsRegistry metrics_;
  uint64_t seed_ = 0;
  Engine engine_{config(), {&executor_, &sampler_, &pool_, nullptr, &metrics_}};
};

TEST_F(EngineTest, AnswersRequestsFromSeveralThreads) {
  std::vector<Client> clients(24);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < 24; i += 3) {
        auto request = request_of(random_prompt(10, i), 5 + i);
        request.sink = clients[i].sink();
        engine_.add_request(std::move(request));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 24; ++i) {
    ASSERT_TRUE(clients[i].wait());
    EXPECT_EQ(clients[i].tokens(), 5 + i);
  }
  EXPECT_EQ(engine_.stats().running, 0);
  EXPECT_EQ(engine_.stats().waiting, 0);
  EXPECT_EQ(engine_.stats().kv_cache_usage, 0.0);
  EXPECT_EQ(engine_.stats().capacity_tokens, 32000);
  EXPECT_TRUE(engine_.healthy());
}

TEST_F(EngineTest, AbortsByExternalId) {
  Client a, b;
  add(a, 100000, "a");
  add(b, 40, "b");
  ASSERT_TRUE(a.wait_for_tokens(3));
  engine_.abort_requests({"a"});
  ASSERT_TRUE(a.wait());
  EXPECT_EQ(a.reason, FinishReason::kAbort);
  ASSERT_TRUE(b.wait());
  EXPECT_EQ(b.reason, FinishReason::kLength);
}

TEST_F(EngineTest, ADroppedClientHearsNoMore) {
  Client gone;
  const auto id = add(gone, 100000);
  ASSERT_TRUE(gone.wait_for_tokens(3));
  engine_.drop_request(id);
  const double deadline = monotonic_seconds() + 20;
  while (engine_.stats().running > 0 && monotonic_seconds() < deadline) std::this_thread::yield();
  EXPECT_EQ(engine_.stats().running, 0);
  const int heard = gone.tokens();
  Client next;
  add(next, 5);
  ASSERT_TRUE(next.wait());
  EXPECT_EQ(gone.tokens(), heard);
  EXPECT_EQ(gone.num_finished, 0);
}

TEST_F(EngineTest, ShutsDownAfterWaitingAndRefusesFromThenOn) {
  Client quick, late;
  add(quick, 20);
  engine_.shutdown(20.0);
  EXPECT_EQ(quick.num_finished, 1);
  EXPECT_EQ(quick.reason, FinishReason::kLength);
  add(late, 5);
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->kind, ErrorKind::kUnavailable);
  engine_.shutdown(0.0);
}

TEST_F(EngineTest, ShutdownAbortsWhatTakesTooLong) {
  Client slow;
  add(slow, 1000000);
  ASSERT_TRUE(slow.wait_for_tokens(1));
  engine_.shutdown(0.01);
  EXPECT_EQ(slow.num_finished, 1);
  EXPECT_EQ(slow.reason, FinishReason::kAbort);
}

TEST_F(EngineTest, ParksWhenIdle) {
  Client client;
  add(client, 5);
  ASSERT_TRUE(client.wait());
  timespec before, after;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used =
      static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  EXPECT_LT(used, 0.03);
}

}  // namespace
}  // namespace unspool
