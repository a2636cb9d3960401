// What pauses, aborts, resets and reloads do to requests, caches and versions, one command at a time.
#include <gtest/gtest.h>

#include "control_harness.h"

namespace unspool {
namespace {

TEST(Pause, AbortAnswersEveryoneFirst) {
  ControlHarness h;
  Record running, parent, queued;
  h.add(running, long_request(1));
  h.add(parent, long_request(2, 4));
  h.step(3);
  h.add(queued, long_request(3, 2));
  bool all_answered = false;
  h.control.pause(PauseMode::kAbort, true, [&](const auto& reply) {
    EXPECT_TRUE(reply.ok());
    all_answered = running.finished() && parent.finished() && queued.finished();
  });
  EXPECT_TRUE(all_answered);
  EXPECT_EQ(running.samples[0].finish_reason, FinishReason::kAbort);
  EXPECT_EQ(running.samples[0].token_ids.size(), 3u);
  EXPECT_EQ(running.samples[0].logprobs.size(), 3u);
  EXPECT_EQ(parent.samples.size(), 4u);
  EXPECT_EQ(queued.samples.size(), 2u);
  EXPECT_TRUE(queued.samples[1].token_ids.empty());
  EXPECT_TRUE(h.control.status().paused && h.control.status().sleeping);
}

TEST(Pause, WhoComesMeanwhileWaitsCountsAndCanGo) {
  ControlHarness h;
  h.pause(PauseMode::kAbort);
  Record waits, aborted, dropped;
  auto request = long_request(1);
  h.add(waits, request);
  auto other = long_request(2);
  other.external_id = "a";
  h.add(aborted, other);
  const auto id = h.add(dropped, long_request(3));
  EXPECT_FALSE(h.core.has_work());
  EXPECT_EQ(h.core.load().waiting, 3);
  EXPECT_EQ(metric(h, "vllm:num_requests_waiting_by_reason", "deferred"), 3);
  EXPECT_EQ(metric(h, "vllm:num_requests_waiting_by_reason", "capacity"), 0);
  EXPECT_EQ(h.abort({"a", "nobody"}).value(), 2);  // as many as were asked for
  EXPECT_EQ(aborted.samples[0].finish_reason, FinishReason::kAbort);
  h.core.drop(id);
  EXPECT_EQ(h.core.load().waiting, 1);
  h.set_version("v2");
  EXPECT_TRUE(h.resume().ok());
  h.run();
  Record want = alone(request);
  expect_same(waits, want);
  EXPECT_EQ(waits.samples[0].weight_versions[0].version, "v2");
  EXPECT_EQ(dropped.num_finished, 0);
}

TEST(Pause, WaitLetsWhatHasBegunEndAndNothingBegin) {
  ControlHarness h;
  Record running, queued;
  h.add(running, long_request(1));
  h.step(2);
  auto pause = h.pause(PauseMode::kWait);
  EXPECT_TRUE(pause.pending());
  EXPECT_TRUE(h.control.status().paused);
  h.add(queued, long_request(2));
  h.run();
  EXPECT_TRUE(pause.ok());
  Record want = alone(long_request(1));
  expect_same(running, want);
  EXPECT_FALSE(queued.finished());
  EXPECT_EQ(h.core.load().waiting, 1);
  h.resume();
  h.run();
  EXPECT_TRUE(queued.finished());
}

TEST(Pause, WaitIncludesWhoWasPreemptedAndWhoHasNoPlaceYet) {
  EngineConfig config = ControlHarness::sleepy();
  config.num_blocks = 12;
  config.max_num_seqs = 3;
  ControlHarness h(config);
  Record a, b, forked;
  h.add(a, long_request(1));
  h.add(b, long_request(2));
  h.add(forked, long_request(3, 6));
  h.step(8);
  auto pause = h.pause(PauseMode::kWait);
  ASSERT_TRUE(pause.pending());
  h.run();
  EXPECT_TRUE(pause.ok());
  EXPECT_TRUE(a.finished() && b.finished());
  EXPECT_EQ(h.core.num_in_flight(), 0);
}

TEST(Pause, AWaitIsAnsweredWhateverComesNext) {
  const auto waiting = [](ControlHarness& h, Record& record) {
    h.add(record, long_request());
    h.step(2);
    return h.pause(PauseMode::kWait);
  };
  const std::pair<std::function<void(ControlHarness&)>, std::optional<ErrorKind>> ends[] = {
      {[](auto& h) { h.pause(PauseMode::kAbort); }, std::nullopt},
      {[](auto& h) { h.pause(PauseMode::kKeep); }, ErrorKind::kConflict},
      {[](auto& h) { h.resume(); }, ErrorKind::kConflict},
      {[](auto& h) { h.wake(); }, ErrorKind::kConflict},
      {[](auto& h) { h.abort(); }, std::nullopt},
      {[](auto& h) { h.sleep(1, PauseMode::kKeep); }, ErrorKind::kConflict},
      {[](auto& h) { h.sleep(2, PauseMode::kAbort); }, std::nullopt},
      {[](auto& h) { h.reload("throws"); }, std::nullopt},
      {[](auto& h) { h.control.shut_down(); }, ErrorKind::kUnavailable},
      {[](auto& h) { h.core.fail_all(), h.settle(); }, ErrorKind::kUnavailable},
  };
  for (const auto& [end, error] : ends) {
    ControlHarness h;
    Record record;
    auto answer = waiting(h, record);
    ASSERT_TRUE(answer.pending());
    end(h);
    EXPECT_FALSE(answer.pending());
    EXPECT_EQ(answer.error_kind(), error);
    EXPECT_NE(h.situation(), Situation::kDraining);
  }
}

TEST(Pause, WaitsAreAnsweredInTheirOrder) {
  ControlHarness h;
  Record record;
  h.add(record, long_request());
  h.step(2);
  std::string order;
  h.control.pause(PauseMode::kWait, false, [&](auto) { order += "a"; });
  h.control.sleep(1, PauseMode::kWait, [&](auto) { order += "b"; });
  h.control.pause(PauseMode::kWait, true, [&](auto) { order += "c"; });
  h.control.sleep(0, PauseMode::kWait, [&](auto) { order += "d"; });
  EXPECT_EQ(order, "");
  h.run();
  EXPECT_EQ(order, "abcd");
  EXPECT_EQ(h.situation(), Situation::kAsleep1);
}

TEST(Pause, KeepGoesOnWhereItWas) {
  for (const bool clear_cache : {false, true}) {
    ControlHarness h;
    Record record;
    h.add(record, long_request(1, 3));
    h.step(5);
    EXPECT_TRUE(h.pause(PauseMode::kKeep, clear_cache).ok());
    EXPECT_FALSE(h.core.has_work());
    EXPECT_EQ(h.core.load().kv_cache_usage > 0.0, !clear_cache);
    auto resumed = h.resume();
    EXPECT_FALSE(resumed.value().mixed_weights);
    h.run();
    Record want = alone(long_request(1, 3));
    expect_same(record, want);
  }
}

TEST(Pause, KeepOverAReloadSaysThatWeightsAreMixed) {
  ControlHarness h;
  Record record;
  h.add(record, long_request());
  h.step(6);
  h.pause(PauseMode::kKeep, false);
  EXPECT_TRUE(h.reload("a").ok());
  h.set_version("v2");
  EXPECT_TRUE(h.resume().value().mixed_weights);
  h.step(4);
  // A preemption: from here on it is of the new weights alone.
  h.pause(PauseMode::kKeep, true);
  EXPECT_FALSE(h.resume().value().mixed_weights);
  h.run();
  const auto& spans = record.samples[0].weight_versions;
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].version, "default");
  EXPECT_EQ(spans[0].end, 6);
  EXPECT_EQ(spans[1].version, "v2");
  EXPECT_EQ(spans[1].end, 10);
  EXPECT_EQ(spans[2].version, "v2");
  EXPECT_EQ(spans[2].end, 40);
  // What it computed under the old weights is nobody's prefix.
  Record next;
  h.add(next, long_request());
  h.run();
  Record want = alone_under(FakeMemory::weights_of("a"), long_request());
  expect_same(next, want);
}

TEST(Pause, KeepWithAClearedCacheContinuesUnderTheNewWeights) {
  ControlHarness h;
  Record record;
  h.add(record, long_request());
  h.step(6);
  h.pause(PauseMode::kKeep, true);
  h.reload("a");
  h.set_version("v2");
  EXPECT_FALSE(h.resume().value().mixed_weights);
  h.run();
  const auto& tokens = record.samples[0].token_ids;
  const auto& spans = record.samples[0].weight_versions;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].start, 6);
  auto rest = long_request();
  rest.prompt_token_ids.insert(rest.prompt_token_ids.end(), tokens.begin(), tokens.begin() + 6);
  rest.params.max_tokens = 40 - 6;
  Record want = alone_under(FakeMemory::weights_of("a"), rest);
  EXPECT_TRUE(std::equal(want.samples[0].token_ids.begin(), want.samples[0].token_ids.end(), tokens.begin() + 6));
}

TEST(ResetPrefixCache, IsTrueOnlyWhenItIsTrue) {
  ControlHarness h;
  Record first, running, after;
  h.add(first, long_request());
  h.run();
  h.add(running, long_request());
  h.step(3);
  EXPECT_EQ(running.num_cached_tokens, 16);
  EXPECT_FALSE(h.reset_prefix_cache(false).value());
  h.pause(PauseMode::kKeep, false);
  EXPECT_FALSE(h.reset_prefix_cache(false).value());
  EXPECT_TRUE(h.reset_prefix_cache(true).value());
  h.resume();
  h.step(2);
  h.add(after, long_request());
  EXPECT_TRUE(h.reset_prefix_cache(true).value());
  h.run();
  Record want = alone(long_request());
  expect_same(running, want);
  expect_same(after, want);
  EXPECT_TRUE(h.reset_prefix_cache(false).value());
  Record cold;
  h.add(cold, long_request());
  h.run();
  EXPECT_EQ(cold.num_cached_tokens, 0);
}

TEST(Reload, UnderTrafficLeavesNoStalePrefix) {
  ControlHarness h;
  Record running, after;
  h.add(running, long_request());
  h.step(4);
  EXPECT_TRUE(h.reload("a").ok());
  h.run();
  h.add(after, long_request());
  h.run();
  Record want = alone_under(FakeMemory::weights_of("a"), long_request());
  expect_same(after, want);
  EXPECT_EQ(after.num_cached_tokens, 0);
  EXPECT_EQ(h.checksums().value().at("w"), std::to_string(FakeMemory::weights_of("a")));
}

TEST(Reload, WhatFailsHalfWayCountsAsDiscarded) {
  for (const char* path : {"throws", "undefined"}) {
    ControlHarness h;
    Record running;
    h.add(running, long_request());
    h.step(4);
    EXPECT_EQ(h.reload(path).error_kind(), ErrorKind::kInternal);
    EXPECT_EQ(h.situation(), Situation::kDiscarded);
    EXPECT_TRUE(h.reload().ok());
    h.run();
    EXPECT_TRUE(running.finished());
  }
}

TEST(Abort, CountsAsTheRouteDoes) {
  ControlHarness h;
  Record one, four;
  h.add(one, long_request(1));
  h.add(four, long_request(2, 4));
  h.step(2);
  EXPECT_EQ(h.abort().value(), 1 + 5);
  EXPECT_TRUE(one.finished() && four.finished());
  EXPECT_EQ(h.abort().value(), 0);
}

}  // namespace
}  // namespace unspool
