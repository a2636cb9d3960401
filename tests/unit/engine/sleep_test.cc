// What sleep and wake do to memory, weights and requests, one command at a time.
#include <gtest/gtest.h>

#include "control_harness.h"

namespace unspool {
namespace {

TEST(Sleep, KeptRequestsOutliveEveryLevel) {
  for (const int level : {0, 1, 2}) {
    ControlHarness h;
    Record record;
    h.add(record, long_request());
    h.step(4);
    EXPECT_EQ(h.sleep(level, PauseMode::kKeep).value().level, level);
    h.step(3);
    EXPECT_TRUE(h.wake().value().awake);
    if (level == 2) {
      EXPECT_FALSE(h.core.has_work());
      h.reload();
    }
    h.run();
    Record want = alone(long_request());
    expect_same(record, want);
  }
}

TEST(Sleep, InTwoPhasesRequestsWaitForTheLast) {
  ControlHarness h;
  Record asleep, loading, refused, after;
  h.sleep(2);
  h.add(asleep, long_request(1));
  EXPECT_FALSE(h.wake({{"weights"}}).value().awake);
  h.add(loading, long_request(2));
  EXPECT_EQ(h.reload("missing").error_kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(h.control.status().weights_discarded);
  EXPECT_TRUE(h.reload("a").ok());
  EXPECT_FALSE(h.core.has_work());
  EXPECT_EQ(h.resume().error_kind(), ErrorKind::kConflict);
  EXPECT_TRUE(h.wake({{"kv_cache"}}).value().awake);
  h.run();
  for (auto& [record, prompt] : {std::pair<Record&, int>(asleep, 1), std::pair<Record&, int>(loading, 2)}) {
    Record want = alone_under(FakeMemory::weights_of("a"), long_request(prompt));
    expect_same(record, want);
  }
}

TEST(Sleep, WithoutAReloadLevel2GeneratesNothing) {
  ControlHarness h;
  Record waits, refused;
  h.sleep(2);
  h.add(waits, long_request());
  h.wake();
  EXPECT_TRUE(h.control.status().weights_discarded);
  EXPECT_FALSE(h.control.status().sleeping);
  h.add(refused, long_request());
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(h.core.has_work());
  EXPECT_EQ(h.reload("broken").error_kind(), ErrorKind::kInvalidArgument);
  EXPECT_FALSE(h.core.has_work());
  h.reload();
  h.run();
  EXPECT_TRUE(waits.finished());
}

TEST(Sleep, ABackupThatFailsChangesNothing) {
  for (const PauseMode mode : {PauseMode::kAbort, PauseMode::kKeep, PauseMode::kWait}) {
    ControlHarness h;
    Record record;
    h.add(record, long_request());
    h.step(4);
    h.memory.fail_back_up = true;
    auto slept = h.sleep(1, mode);
    h.run();
    EXPECT_EQ(slept.error_kind(), ErrorKind::kInternal);
    EXPECT_EQ(h.situation(), Situation::kAwake);
    EXPECT_EQ(record.samples[0].finish_reason, FinishReason::kLength);
    h.memory.fail_back_up = false;
    EXPECT_TRUE(h.sleep(1, mode).ok());
    EXPECT_TRUE(h.wake().ok());
  }
}

TEST(Sleep, AWakeThatFailsCanBeTriedAgain) {
  for (const int level : {1, 2}) {
    ControlHarness h;
    h.sleep(level);
    const Situation asleep = h.situation();
    for (bool* fails : {&h.memory.fail_restore_kv_cache, &h.memory.fail_restore_weights}) {
      *fails = true;
      EXPECT_EQ(h.wake().error_kind(), ErrorKind::kInternal);
      EXPECT_EQ(h.situation(), asleep);
      EXPECT_TRUE(h.memory.kv_cache_released);
      *fails = false;
    }
    EXPECT_TRUE(h.wake().value().awake);
  }
}

TEST(Sleep, AChangedCheckpointIsAConflictAndItsWeightsAreDiscarded) {
  ControlHarness h;
  h.sleep(1);
  h.memory.changed_checkpoint = true;
  EXPECT_EQ(h.wake().error_kind(), ErrorKind::kConflict);
  EXPECT_EQ(h.situation(), Situation::kDiscarded);
  EXPECT_TRUE(h.reload().ok());
  EXPECT_EQ(h.situation(), Situation::kAwake);
}

TEST(Sleep, TagsThatAreAwakeAreSkippedAndUnknownOnesStopTheCall) {
  ControlHarness h;
  h.sleep(1);
  auto unknown = h.wake({{"weights", "wieghts"}});
  EXPECT_EQ(unknown.value().ignored, std::vector<std::string>({"wieghts"}));
  EXPECT_FALSE(unknown.value().awake);
  EXPECT_TRUE(h.memory.weights_released);
  h.wake({{"weights"}});
  EXPECT_TRUE(h.wake({{"weights", "kv_cache"}}).value().awake);
  EXPECT_TRUE(h.wake().value().awake);
}

TEST(Sleep, NotEnabledItPausesAndFreesNothing) {
  EngineConfig config = ControlHarness::sleepy();
  config.enable_sleep_mode = false;
  ControlHarness h(config);
  EXPECT_TRUE(h.sleep(2).ok());
  EXPECT_TRUE(h.control.status().sleeping);
  EXPECT_FALSE(h.memory.weights_released || h.memory.kv_cache_released);
  EXPECT_TRUE(h.wake().value().awake);
  EXPECT_FALSE(h.control.status().weights_discarded);
  Record record;
  h.add(record, long_request());
  h.run();
  EXPECT_TRUE(record.finished());
}

TEST(Sleep, MetricsFollowIt) {
  ControlHarness h;
  const auto state = [&] {
    return std::to_string(static_cast<int>(metric(h, "vllm:engine_sleep_state", "\"awake\""))) +
           std::to_string(static_cast<int>(metric(h, "vllm:engine_sleep_state", "weights_offloaded"))) +
           std::to_string(static_cast<int>(metric(h, "vllm:engine_sleep_state", "discard_all")));
  };
  EXPECT_EQ(state(), "100");
  h.sleep(0);
  EXPECT_EQ(state(), "000");
  h.resume();
  EXPECT_EQ(state(), "100");
  h.sleep(1);
  EXPECT_EQ(state(), "010");
  h.wake({{"weights"}});
  EXPECT_EQ(state(), "010");
  h.wake();
  EXPECT_EQ(state(), "100");
  h.sleep(2);
  EXPECT_EQ(state(), "001");
  EXPECT_EQ(metric(h, "vllm:sleep_mode_operation_duration_seconds_count", "operation=\"sleep\""), 3);
  EXPECT_EQ(metric(h, "vllm:sleep_mode_operation_duration_seconds_count", "operation=\"wake\""), 2);
  EXPECT_EQ(metric(h, "vllm:sleep_mode_operations_in_flight"), 0);
}

TEST(ReleaseKvCache, ComputesFrozenRequestsAgain) {
  for (const bool caching : {true, false}) {
    EngineConfig config = ControlHarness::sleepy();
    config.enable_prefix_caching = caching;
    ControlHarness h(config);
    Record record;
    h.add(record, long_request());
    h.step(5);
    EXPECT_EQ(h.release_kv_cache().error_kind(), ErrorKind::kInternal);
    h.pause(PauseMode::kKeep, false);
    EXPECT_TRUE(h.release_kv_cache().ok());
    EXPECT_EQ(h.resume().error_kind(), ErrorKind::kConflict);
    EXPECT_TRUE(h.wake({{"kv_cache"}}).value().awake);
    h.run();
    Record want = alone(long_request());
    expect_same(record, want);
  }
}

}  // namespace
}  // namespace unspool
