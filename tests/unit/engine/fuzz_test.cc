// Random operations on a small engine: nothing leaks, nothing hangs, each request is answered once, and those that no
// fault touched say what they say alone. Invariants are validated after every step (UNSPOOL_VALIDATE, and here).
#include <gtest/gtest.h>

#include <deque>

#include "core_harness.h"

namespace unspool {
namespace {

struct Tracked {
  Record record;
  EngineRequest request;
  uint64_t id = 0;
  bool dropped = false;
  bool aborted = false;
};

class Fuzz : public ::testing::TestWithParam<int> {
 protected:
  int below(int limit) { return static_cast<int>(generator_() % static_cast<uint64_t>(limit)); }

  EngineConfig random_config() {
    EngineConfig config = CoreHarness::roomy();
    config.block_size = 4 << below(3);
    config.num_blocks = 6 + below(30);
    config.max_num_seqs = 1 + below(12);
    config.max_num_batched_tokens = 1 + below(60);
    config.enable_prefix_caching = below(4) != 0;
    config.scheduling_policy = below(2) == 0 ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
    return config;
  }

  EngineRequest random_request() {
    auto prompt = random_prompt(1 + below(30), generator_());
    if (below(2) == 0) prompt.insert(prompt.begin(), shared_.begin(), shared_.begin() + below(24));
    auto request = request_of(std::move(prompt), 1 + below(40), below(1000));
    request.external_id = std::to_string(below(20));
    request.params.n = below(3) == 0 ? 1 + below(6) : 1;
    request.priority = below(5);
    if (below(5) == 0) request.params.prompt_logprobs = below(3);
    if (below(5) == 0) request.params.stop_token_ids = {below(48), below(48), below(48)};
    if (below(6) == 0) request.cache_salt = std::to_string(below(3));
    return request;
  }

  std::mt19937_64 generator_{static_cast<uint64_t>(GetParam())};
  const std::vector<int32_t> shared_ = random_prompt(24, 4711);
};

TEST_P(Fuzz, RandomOperations) {
  CoreHarness harness(random_config());
  const int slots = harness.core.config().num_blocks * harness.core.config().block_size;
  std::deque<Tracked> all;
  int faults = 0;
  for (int i = 0; i < 1000; ++i) {
    const int what = below(100);
    if (what < 12 && harness.core.num_requests() < 12) {
      Tracked& tracked = all.emplace_back();
      tracked.request = random_request();
      tracked.id = harness.add(tracked.record, tracked.request);
    } else if (what < 14 && !all.empty()) {
      Tracked& tracked = all[below(static_cast<int>(all.size()))];
      tracked.dropped = tracked.dropped || !tracked.record.finished();
      harness.core.drop(tracked.id);
    } else if (what < 16) {
      const std::string external_id = std::to_string(below(20));
      for (Tracked& tracked : all) {
        if (tracked.request.external_id == external_id && !tracked.record.finished()) tracked.aborted = true;
      }
      harness.core.abort({external_id});
    } else if (what < 17) {
      ++faults;
      harness.executor.before_execute = [](const StepPlan&) { throw std::runtime_error("a fault"); };
      if (harness.core.has_work()) harness.core.step();
      harness.executor.before_execute = nullptr;
    } else if (harness.core.has_work()) {
      harness.core.step();
    }
    for (const auto& violation : harness.core.validate()) FAIL() << "operation " << i << ": " << violation;
  }
  harness.run();
  EXPECT_GT(faults, 0);
  int compared = 0;
  for (Tracked& tracked : all) {
    if (tracked.dropped) continue;
    ASSERT_TRUE(tracked.record.finished());
    if (tracked.record.error || tracked.aborted || compared >= 60) continue;
    Record want = alone(tracked.request);
    if (static_cast<int>(tracked.request.prompt_token_ids.size()) + tracked.request.params.max_tokens > slots) continue;
    ++compared;
    expect_same(tracked.record, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Fuzz, ::testing::Range(1, 25));

}  // namespace
}  // namespace unspool
