#include "threading/watched_workers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace unspool {
namespace {

using Outcome = WatchedWorkers::Outcome;

std::future<Outcome> post(WatchedWorkers& workers, double limit_s, std::function<void()> work) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  workers.post(limit_s, std::move(work), [promise](Outcome outcome) { promise->set_value(outcome); });
  return promise->get_future();
}

void spin_until(const std::shared_ptr<std::atomic<bool>>& released) {
  while (!*released) {
  }
}

TEST(WatchedWorkers, RunsEverythingOnce) {
  auto count = std::make_shared<std::atomic<int>>(0);
  WatchedWorkers workers(3, 1);
  std::vector<std::future<Outcome>> futures;
  for (int i = 0; i < 1000; ++i) futures.push_back(post(workers, 10, [count] { ++*count; }));
  for (auto& future : futures) EXPECT_EQ(future.get(), Outcome::kDone);
  EXPECT_EQ(*count, 1000);
}

TEST(WatchedWorkers, WorkThatSleepsUsesNoneOfItsLimit) {
  WatchedWorkers workers(1, 1);
  auto future = post(workers, 0.05, [] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); });
  EXPECT_EQ(future.get(), Outcome::kDone);
}

TEST(WatchedWorkers, GivesUpWhatSpinsAndGoesOn) {
  auto released = std::make_shared<std::atomic<bool>>(false);
  WatchedWorkers workers(1, 2);
  auto first = post(workers, 0.02, [released] { spin_until(released); });
  auto behind = post(workers, 10, [] {});
  EXPECT_EQ(first.get(), Outcome::kGivenUp);
  EXPECT_EQ(behind.get(), Outcome::kDone);
  EXPECT_EQ(post(workers, 0.02, [released] { spin_until(released); }).get(), Outcome::kGivenUp);
  EXPECT_EQ(workers.num_left_behind(), 2);
  EXPECT_EQ(post(workers, 10, [] {}).get(), Outcome::kRefused);
  *released = true;
  while (workers.num_left_behind() > 0) std::this_thread::yield();
  EXPECT_EQ(post(workers, 10, [] {}).get(), Outcome::kDone);
}

// Goes down by a kilobyte a level, and comes back.
int descend(int levels) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(levels);
  return levels == 0 ? 0 : descend(levels - 1) + (frame[0] == static_cast<char>(levels) ? 1 : 0);
}

long resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

TEST(WatchedWorkers, HaveRoomForDeepCallsAndGiveItBack) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer follows 65,536 calls, and its shadow of a stack stays";
#endif
  constexpr int kLevels = 100'000;
  WatchedWorkers workers(1, 1, 0, 512 << 20);
  auto deepest = std::make_shared<int>(0);
  auto touched_kb = std::make_shared<long>(0);
  const long before_kb = resident_kb();
  const auto work = [deepest, touched_kb] {
    *deepest = descend(kLevels);
    *touched_kb = resident_kb();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post(workers, 100, work).get(), Outcome::kDone);
    EXPECT_EQ(*deepest, kLevels);
    EXPECT_GT(*touched_kb - before_kb, kLevels) << "the calls were not as deep as they should be";
    EXPECT_LT(resident_kb() - before_kb, kLevels / 4);
  }
}

TEST(WatchedWorkers, TakeWhatStackThereIs) {
  WatchedWorkers workers(1, 1, 0, size_t{1} << 62);
  EXPECT_EQ(post(workers, 10, [] {}).get(), Outcome::kDone);
}

TEST(WatchedWorkers, EndsWhileSomethingSpins) {
  auto released = std::make_shared<std::atomic<bool>>(false);
  auto dropped = std::make_shared<std::atomic<bool>>(false);
  {
    WatchedWorkers workers(1, 1);
    workers.post(1000, [released] { spin_until(released); }, [](Outcome) {});
    workers.post(10, [dropped] { *dropped = true; }, [](Outcome) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(threads_left_behind(), 1);
  *released = true;
  while (threads_left_behind() > 0) std::this_thread::yield();
  EXPECT_FALSE(*dropped) << "what is queued is dropped";
}

}  // namespace
}  // namespace unspool
