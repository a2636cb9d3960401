#include "threading/thread_pool.h"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "threading/affinity.h"

namespace unspool {
namespace {

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ThreadPool, RunsOncePerThread) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<int> calls(static_cast<size_t>(threads));
    for (int round = 0; round < 200; ++round) {
      pool.run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
    }
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(threads), 200));
  }
}

TEST(ThreadPool, ThreadZeroIsTheCaller) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.run([&](int thread) { ids[static_cast<size_t>(thread)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[2]);
}

TEST(ThreadPool, ParallelForCoversEveryIndexOnce) {
  ThreadPool pool(4);
  for (const int64_t count : {0, 1, 2, 3, 1000}) {
    std::vector<int> hits(static_cast<size_t>(count));
    pool.parallel_for(count, [&](int64_t index, int thread) {
      EXPECT_TRUE(thread >= 0 && thread < 4);
      ++hits[static_cast<size_t>(index)];
    });
    EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), int64_t{0}), count);
    EXPECT_EQ(std::count(hits.begin(), hits.end(), 1), count);
  }
}

// Threads that come late to one region find the next, of the other kind perhaps. Several pools at once, so that a
// caller loses its core anywhere between the steps that open a region.
TEST(ThreadPool, LateThreadsMissNothingAndRepeatNothing) {
  std::atomic<int> wrong{0};
  auto check_rounds = [&wrong] {
    ThreadPool pool(5);
    for (int round = 0; round < 3000 && wrong == 0; ++round) {
      std::array<std::atomic<int>, 5> runs{};
      std::array<std::atomic<int>, 7> calls{};
      pool.parallel_for(7, [&](int64_t index, int) { ++calls[static_cast<size_t>(index)]; });
      if (round % 3 == 0) pool.run([&](int thread) { ++runs[static_cast<size_t>(thread)]; });
      for (const auto& n : calls) wrong += n != 1;
      for (const auto& n : runs) wrong += n != (round % 3 == 0 ? 1 : 0);
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(check_rounds);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, ResultsOfARegionAreVisibleToTheNext) {
  ThreadPool pool(2);
  std::vector<int> values(64);
  for (int round = 0; round < 500; ++round) {
    pool.parallel_for(64, [&](int64_t index, int) { ++values[static_cast<size_t>(63 - index)]; });
  }
  EXPECT_EQ(values, std::vector<int>(64, 500));
}

TEST(ThreadPool, ExceptionsReachTheCallerAndThePoolLives) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.run([&](int thread) {
        if (thread == threads - 1) throw std::runtime_error("from a worker");
      }),
                   std::runtime_error);
      EXPECT_THROW(pool.run([](int) { throw std::runtime_error("from all"); }), std::runtime_error);
      EXPECT_THROW(pool.parallel_for(100,
                                     [](int64_t index, int) {
                                       if (index == 17) throw std::runtime_error("one index");
                                     }),
                   std::runtime_error);
    }
    std::atomic<int> calls{0};
    pool.run([&](int) { ++calls; });
    EXPECT_EQ(calls, threads);
  }
}

TEST(ThreadPool, NestedRegionIsRefused) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run([&](int thread) {
    if (thread == 0) pool.run([](int) {});
  }),
               CheckFailure);
}

TEST(ThreadPool, RegionsRunInTheContractsFloatMode) {
  const unsigned before = _mm_getcsr();
  ThreadPool pool(2);
  std::vector<float> results(2);
  const volatile float tiny = std::numeric_limits<float>::min();
  pool.run([&](int thread) { results[static_cast<size_t>(thread)] = tiny * 0.5f; });
  EXPECT_EQ(results, (std::vector<float>{0.0f, 0.0f}));
  EXPECT_EQ(_mm_getcsr() & 0xFFC0u, before & 0xFFC0u);
  pool.parallel_for(1, [&](int64_t, int) { results[0] = tiny * 0.5f + 1.0f; });
  EXPECT_NE(tiny * 0.5f, 0.0f);
}

TEST(ThreadPool, IdleThreadsPark) {
  ThreadPool pool(4);
  pool.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.003);  // 1 % of a core
  std::atomic<int> calls{0};
  pool.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(ThreadPool, CallerParksBehindASlowWorker) {
  ThreadPool pool(2);
  const double before = cpu_seconds();
  pool.run([](int thread) {
    if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  EXPECT_LT(cpu_seconds() - before, 0.01);
}

TEST(ThreadPool, EmptyRegionCost) {
  ThreadPool pool(2);
  constexpr int kRegions = 20000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRegions; ++i) pool.run([](int) {});
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
  RecordProperty("microseconds_per_region", std::to_string(elapsed.count() / kRegions));
  std::printf("%.2f us per empty region\n", elapsed.count() / kRegions);
}

class CgroupTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(mount_ + path).parent_path());
    std::ofstream(mount_ + path) << text;
  }
  void TearDown() override { std::filesystem::remove_all(mount_); }

  std::string mount_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "cgroup-XXXXXX").string();
    return std::string(mkdtemp(name.data()));
  }();
};

TEST_F(CgroupTest, TightestLevelCounts) {
  write("/cpu.max", "max 100000\n");
  write("/a/cpu.max", "150000 100000\n");
  write("/a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota("0::/a/b\n", mount_), 1.5);
  EXPECT_EQ(cgroup_cpu_quota("0::/\n", mount_), std::numeric_limits<double>::infinity());
}

TEST_F(CgroupTest, VersionOneAndMissingPaths) {
  write("/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
  write("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  write("/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota("5:cpuset:/x\n4:cpu,cpuacct:/x\n0::/\n", mount_), 2.5);
  EXPECT_EQ(cgroup_cpu_quota("4:cpu,cpuacct:/docker/0123\n", mount_), 2.5);
  EXPECT_EQ(cgroup_cpu_quota("nonsense\n", mount_), std::numeric_limits<double>::infinity());
}

TEST(Affinity, AllowedCoresFitTheMask) {
  EXPECT_GE(allowed_cores(), 1);
  EXPECT_LE(allowed_cores(), static_cast<int>(affinity_mask().size()));
}

}  // namespace
}  // namespace unspool
