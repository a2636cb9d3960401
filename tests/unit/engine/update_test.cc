// A session of weight updates, one command at a time: when its weights are served, and what becomes of those that were.
#include <gtest/gtest.h>

#include "control_harness.h"

namespace unspool {
namespace {

uint64_t updated() {
  return FakeMemory::weights_of("update");
}

TEST(Update, IsServedFromItsFinishOn) {
  ControlHarness h;
  Record before, after;
  h.add(before, long_request());
  h.step(4);
  EXPECT_TRUE(h.start_update().ok());
  EXPECT_TRUE(h.control.status().update_open);
  EXPECT_TRUE(h.hold_for_update().ok());
  h.step(4);  // beside it, nothing waits
  EXPECT_EQ(before.samples[0].token_ids.size(), 8u);
  EXPECT_TRUE(h.finish_update(false, "v1").ok());
  EXPECT_FALSE(h.control.status().update_open);
  EXPECT_EQ(h.control.status().weight_version, "v1");
  h.run();
  const auto& spans = before.samples[0].weight_versions;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].version, "v1");
  EXPECT_EQ(spans[1].start, 8);
  h.add(after, long_request());
  h.run();
  Record want = alone_under(updated(), long_request());
  expect_same(after, want);
  EXPECT_EQ(after.num_cached_tokens, 0);  // no block of the old weights
}

TEST(Update, UnderAKeptPauseIsMixedUnlessTheCacheWasCleared) {
  for (const bool clear : {false, true}) {
    ControlHarness h;
    Record record;
    h.add(record, long_request());
    h.step(6);
    h.pause(PauseMode::kKeep, clear);
    EXPECT_TRUE(h.start_update().ok());
    EXPECT_TRUE(h.finish_update(false, "v1").ok());
    EXPECT_EQ(h.resume().value().mixed_weights, !clear);
    h.run();
    ASSERT_EQ(record.samples[0].weight_versions.size(), 2u);
    if (!clear) continue;
    // As the new weights go on from those tokens.
    const auto& tokens = record.samples[0].token_ids;
    const int begin = record.samples[0].weight_versions[1].start;
    auto rest = long_request();
    rest.prompt_token_ids.insert(rest.prompt_token_ids.end(), tokens.begin(), tokens.begin() + begin);
    rest.params.max_tokens = 40 - begin;
    Record want = alone_under(updated(), rest);
    EXPECT_TRUE(std::equal(want.samples[0].token_ids.begin(), want.samples[0].token_ids.end(), tokens.begin() + begin));
  }
}

TEST(Update, OutOfOrderIsSaidInTheReferencesWords) {
  ControlHarness h;
  EXPECT_EQ(h.hold_for_update().error(), "start_weight_update must be called before update_weights.");
  EXPECT_EQ(h.finish_update().error(), "finish_weight_update called without a matching start_weight_update.");
  EXPECT_TRUE(h.start_update().ok());
  EXPECT_EQ(h.start_update().error(),
            "start_weight_update called while a weight update is already active. Call finish_weight_update first.");
  EXPECT_TRUE(h.finish_update().ok());
  EXPECT_EQ(h.finish_update().error_kind(), ErrorKind::kInternal);
}

TEST(Update, OfAnEndedSessionTouchesNothing) {
  ControlHarness h;
  const uint64_t first = h.start_update().value();
  h.drop_update();
  const uint64_t second = h.start_update().value();
  EXPECT_NE(first, second);
  DoneAnswer hold, finish, drop;
  h.control.hold_for_update(first, hold.callback());
  h.control.finish_weight_update(first, false, "v1", finish.callback());
  h.control.drop_weight_update(first, "it is late", drop.callback());
  EXPECT_EQ(hold.error_kind(), ErrorKind::kInternal);
  EXPECT_EQ(finish.error_kind(), ErrorKind::kInternal);
  EXPECT_TRUE(drop.ok());
  EXPECT_EQ(h.situation(), Situation::kUpdateOpen);
  EXPECT_EQ(h.control.status().weight_version, "default");
  EXPECT_TRUE(h.finish_update().ok());
}

TEST(Update, AsleepIsAConflictThatNamesTheTag) {
  ControlHarness h;
  h.sleep(2);
  EXPECT_NE(h.start_update().error().find("weights, kv_cache are asleep"), std::string::npos);
  h.wake({{"kv_cache"}});
  EXPECT_NE(h.start_update().error().find("weights is asleep"), std::string::npos);
  EXPECT_NE(h.hold_for_update().error().find("weights is asleep"), std::string::npos);
  EXPECT_NE(h.finish_update().error().find("weights is asleep"), std::string::npos);
}

TEST(Update, InTwoPhasesAWholeOneEndsDiscarded) {
  for (const bool whole : {true, false}) {
    ControlHarness h;
    Record waits;
    h.sleep(2);
    h.wake({{"weights"}});
    h.add(waits, long_request());
    h.memory.whole = whole;
    EXPECT_TRUE(h.start_update().ok());
    EXPECT_EQ(h.situation(), Situation::kUpdateOpenKvAsleep);
    if (!whole) {
      EXPECT_EQ(h.finish_update(false).error_kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(h.situation(), Situation::kUpdateOpenKvAsleep);
    }
    EXPECT_TRUE(h.finish_update(!whole).ok());
    EXPECT_TRUE(h.wake({{"kv_cache"}}).value().awake);
    EXPECT_EQ(h.control.status().weights_discarded, !whole);
    EXPECT_EQ(h.core.has_work(), whole);
    if (!whole) h.reload("update");
    h.run();
    Record want = alone_under(updated(), long_request());
    expect_same(waits, want);
  }
}

TEST(Update, InPlaceStopsEveryStepUntilItsEnd) {
  ControlHarness h;
  h.memory.in_place = true;
  Record running, fresh;
  h.add(running, long_request(1));
  h.step(4);
  h.start_update();
  h.step(2);
  EXPECT_EQ(running.samples[0].token_ids.size(), 6u);
  h.hold_for_update();
  h.memory.write();
  h.add(fresh, long_request(2));
  EXPECT_FALSE(h.core.has_work());
  EXPECT_EQ(h.checksums().error_kind(), ErrorKind::kConflict);
  EXPECT_TRUE(h.finish_update().ok());
  h.run();
  EXPECT_TRUE(running.finished());
  Record want = alone_under(updated(), long_request(2));
  expect_same(fresh, want);
}

TEST(Update, LostInPlaceTheEngineRefusesUntilAWholeOne) {
  ControlHarness h;
  h.memory.in_place = true;
  Record running, refused, after;
  h.add(running, long_request(1));
  h.step(4);
  h.start_update();
  h.hold_for_update();
  h.memory.write();
  EXPECT_TRUE(h.drop_update().ok());
  EXPECT_EQ(h.situation(), Situation::kDiscarded);
  h.add(refused, long_request(2));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(h.core.has_work());
  h.start_update();
  h.hold_for_update();
  h.memory.write();
  EXPECT_TRUE(h.finish_update().ok());
  h.add(after, long_request(2));
  h.run();
  EXPECT_TRUE(running.finished());
  Record want = alone_under(updated(), long_request(2));
  expect_same(after, want);
}

TEST(Update, ASleepDropsItAndInPlaceLosesTheWeights) {
  for (const bool in_place : {false, true})
    for (const PauseMode mode : {PauseMode::kAbort, PauseMode::kWait, PauseMode::kKeep}) {
      ControlHarness h;
      h.memory.in_place = in_place;
      h.start_update();
      h.hold_for_update();
      if (in_place) h.memory.write();
      EXPECT_TRUE(h.sleep(1, mode).ok());
      EXPECT_EQ(h.memory.update, std::nullopt);
      EXPECT_EQ(h.situation(), in_place ? Situation::kAsleep2 : Situation::kAsleep1);
      h.wake();
      EXPECT_EQ(h.finish_update().error_kind(), ErrorKind::kInternal);
      EXPECT_EQ(h.control.status().weights_discarded, in_place);
      EXPECT_EQ(h.control.status().weight_version, "default");
    }
}

TEST(Update, ACommitThatFailsLeavesTheSessionOpen) {
  ControlHarness h;
  h.start_update();
  h.memory.throw_commit = true;
  EXPECT_EQ(h.finish_update(false, "v1").error_kind(), ErrorKind::kInternal);
  h.memory.throw_commit = false;
  h.memory.whole = false;
  EXPECT_EQ(h.finish_update(false, "v1").error_kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(h.situation(), Situation::kUpdateOpen);
  EXPECT_EQ(h.control.status().weight_version, "default");
  EXPECT_TRUE(h.finish_update(true, "v1").ok());
  EXPECT_EQ(h.control.status().weight_version, "v1");
}

TEST(Update, ReloadsAndResetsWaitForItsEnd) {
  ControlHarness h;
  h.start_update();
  EXPECT_EQ(h.reload("a").error_kind(), ErrorKind::kConflict);
  EXPECT_NE(h.zero_weights().error().find("a weight update session is open"), std::string::npos);
  EXPECT_TRUE(h.drop_update().ok());
  EXPECT_TRUE(h.reload("a").ok());
}

TEST(Update, WithoutATransferNothingStarts) {
  ControlHarness h;
  h.memory.fail_begin_update = true;
  EXPECT_EQ(h.start_update().error_kind(), ErrorKind::kInternal);
  EXPECT_EQ(h.situation(), Situation::kAwake);
}

TEST(Update, ShutdownEndsIt) {
  ControlHarness h;
  h.start_update();
  h.control.shut_down();
  EXPECT_EQ(h.memory.update, std::nullopt);
}

TEST(Update, IsMeasured) {
  ControlHarness h;
  const std::string count = "vllm:rl_weight_update_operation_duration_seconds_count";
  h.start_update();
  h.finish_update(true);
  EXPECT_EQ(metric(h, count, "operation=\"start\""), 1);
  EXPECT_EQ(metric(h, count, "operation=\"finish\""), 1);
  EXPECT_EQ(metric(h, count, "operation=\"update\""), 0);
  EXPECT_EQ(metric(h, "vllm:rl_weight_update_operations_in_flight", "operation=\"finish\""), 0);
}

}  // namespace
}  // namespace unspool
