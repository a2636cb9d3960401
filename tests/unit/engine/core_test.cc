// The life of a request: how it ends, and what is left when it does.
#include <gtest/gtest.h>

#include <cmath>

#include "core_harness.h"

namespace unspool {
namespace {

TEST(Core, EndsAtMaxTokensWithItsVersionSpan) {
  Record record = alone(request_of(random_prompt(5, 1), 7));
  const SampleRecord& sample = record.samples[0];
  EXPECT_EQ(sample.token_ids.size(), 7u);
  EXPECT_EQ(sample.logprobs.size(), 7u);
  EXPECT_EQ(sample.finish_reason, FinishReason::kLength);
  ASSERT_EQ(sample.weight_versions.size(), 1u);
  EXPECT_EQ(sample.weight_versions[0].version, "default");
  EXPECT_EQ(sample.weight_versions[0].start, 0);
  EXPECT_EQ(sample.weight_versions[0].end, 7);
}

TEST(Core, EndsAtMaxModelLen) {
  EngineConfig config = CoreHarness::roomy();
  config.max_model_len = 12;
  CoreHarness harness(config);
  Record record;
  harness.add(record, request_of(random_prompt(5, 1), 100));
  harness.run();
  EXPECT_EQ(record.samples[0].token_ids.size(), 7u);
  EXPECT_EQ(record.samples[0].finish_reason, FinishReason::kLength);
}

TEST(Core, EndsWhenItOutgrowsTheCache) {
  EngineConfig config = CoreHarness::roomy();
  config.num_blocks = 3;
  CoreHarness harness(config);
  Record record, second;
  harness.add(record, request_of(random_prompt(10, 1), 100));
  harness.add(second, request_of(random_prompt(3, 1), 100));
  harness.run();
  for (Record* r : {&record, &second}) {
    EXPECT_EQ(r->samples[0].finish_reason, FinishReason::kLength);
    EXPECT_FALSE(r->error);
  }
  EXPECT_EQ(record.samples[0].token_ids.size(), 15u);  // 24 slots, and the token drawn from the last
  EXPECT_EQ(second.samples[0].token_ids.size(), 22u);
}

TEST(Core, RefusesWhatCanNeverRun) {
  EngineConfig config = CoreHarness::roomy();
  config.num_blocks = 3;
  CoreHarness harness(config);
  EXPECT_TRUE(harness.core.fits(24));
  EXPECT_FALSE(harness.core.fits(25));
  auto with_stop = request_of(random_prompt(4, 1));
  with_stop.params.stop = {"x"};
  std::vector<EngineRequest> requests = {request_of(random_prompt(25, 1)), request_of({}),
                                         request_of({FakeExecutor::kVocab}), request_of({-1}), with_stop};
  for (auto& request : requests) {
    Record record;
    harness.add(record, request);
    ASSERT_TRUE(record.error);
    EXPECT_EQ(record.error->kind, ErrorKind::kInvalidArgument);
    EXPECT_TRUE(record.finished());
  }
  harness.expect_empty();
}

TEST(Core, StopsAtTokensAndKeepsThem) {
  auto request = request_of(random_prompt(5, 1), 40);
  Record free_run = alone(request);
  const auto& tokens = free_run.samples[0].token_ids;
  request.params.stop_token_ids = {tokens[5]};
  Record stopped = alone(request);
  const SampleRecord& sample = stopped.samples[0];
  EXPECT_EQ(sample.finish_reason, FinishReason::kStop);
  EXPECT_EQ(std::get<int32_t>(sample.stop_reason), tokens[5]);
  EXPECT_EQ(sample.token_ids.back(), tokens[5]);
  EXPECT_LE(sample.token_ids.size(), 6u);
}

TEST(Core, AbortsInEveryState) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 2;
  config.max_num_batched_tokens = 8;
  CoreHarness harness(config);
  Record running, prefilling, queued, other;
  auto forked = request_of(random_prompt(4, 1), 50);
  forked.params.n = 3;
  forked.external_id = "a";
  harness.add(running, forked);
  harness.core.step();
  auto parent = request_of(random_prompt(30, 2), 50);
  parent.params.n = 2;
  parent.external_id = "a";
  harness.add(prefilling, parent);
  auto waiting = request_of(random_prompt(4, 3), 50);
  waiting.external_id = "b";
  harness.add(queued, waiting);
  auto kept = request_of(random_prompt(4, 4), 5);
  kept.external_id = "c";
  harness.add(other, kept);
  harness.core.step();
  harness.core.abort({"a", "unknown"});
  EXPECT_TRUE(running.finished());
  EXPECT_TRUE(prefilling.finished());
  EXPECT_FALSE(queued.finished());
  EXPECT_EQ(running.samples.size(), 3u);
  EXPECT_FALSE(running.samples[2].token_ids.empty());
  EXPECT_EQ(prefilling.samples.size(), 2u);
  for (auto& [index, sample] : prefilling.samples) {
    EXPECT_EQ(sample.finish_reason, FinishReason::kAbort);
    EXPECT_TRUE(sample.weight_versions.empty());
  }
  harness.core.abort({"b"});
  EXPECT_TRUE(queued.finished());
  harness.run();
  Record want = alone(kept);
  expect_same(other, want);
}

TEST(Core, ADroppedRequestIsSilent) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 1;
  CoreHarness harness(config);
  Record running, queued;
  const auto first = harness.add(running, request_of(random_prompt(4, 1), 50));
  const auto second = harness.add(queued, request_of(random_prompt(4, 2), 50));
  harness.core.step();
  harness.core.drop(second);
  harness.core.drop(first);
  harness.core.drop(first);
  harness.core.drop(12345);
  harness.expect_empty();
  EXPECT_EQ(running.num_finished, 0);
  EXPECT_TRUE(queued.samples.empty());
}

TEST(Core, AFailedStepFailsItsRequestsAlone) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 2;
  CoreHarness harness(config);
  Record failing[2], waiting;
  for (auto& record : failing) harness.add(record, request_of(random_prompt(20, 1), 50));
  const auto last = request_of(random_prompt(20, 2), 20);
  harness.add(waiting, last);
  harness.core.step();
  harness.core.step();
  harness.executor.before_execute = [](const StepPlan&) { throw std::bad_alloc(); };
  harness.core.step();
  harness.executor.before_execute = nullptr;
  for (auto& record : failing) {
    ASSERT_TRUE(record.error);
    EXPECT_EQ(record.error->kind, ErrorKind::kInternal);
    EXPECT_EQ(record.error->message, "Internal server error");
  }
  harness.run();
  Record want = alone(last);
  expect_same(waiting, want);
}

TEST(Core, ValuesThatAreNotFiniteFailTheirRequestAndAreNoHits) {
  CoreHarness harness;
  const auto prompt = random_prompt(30, 1);
  Record bad, good, again;
  harness.add(bad, request_of(prompt));
  const auto other = request_of(random_prompt(30, 2));
  harness.add(good, other);
  harness.executor.before_execute = [&](const StepPlan&) { harness.executor.non_finite = {0}; };
  harness.core.step();
  harness.executor.before_execute = nullptr;
  ASSERT_TRUE(bad.error);
  EXPECT_NE(bad.error->message.find("finite"), std::string::npos);
  harness.run();
  Record want = alone(other);
  expect_same(good, want);
  harness.add(again, request_of(prompt));
  harness.run();
  EXPECT_EQ(again.num_cached_tokens, 0);
  EXPECT_FALSE(again.error);
}

TEST(Core, LogitsThatAreNotFiniteFailTheRequest) {
  for (const bool prompt_too : {false, true}) {
    CoreHarness harness;
    auto request = request_of(random_prompt(30, 1));
    if (prompt_too) request.params.prompt_logprobs = 1;
    Record record;
    harness.add(record, request);
    harness.executor.poison_logits = true;
    harness.core.step();
    EXPECT_TRUE(record.error);
    harness.expect_empty();
  }
}

TEST(Core, WhatItsOwnParametersLeaveNothingForIsItsOwnFault) {
  CoreHarness harness;
  EngineRequest request = request_of(random_prompt(5, 1), 8);
  request.params.allowed_token_ids = {3};
  request.params.bad_words_token_ids = {{3, 3}};  // bars the second token, so no check of the request alone sees it
  Record barred;
  harness.add(barred, std::move(request));
  Record good;
  harness.add(good, request_of(random_prompt(5, 2), 4));
  harness.run();
  ASSERT_TRUE(barred.error);
  EXPECT_EQ(barred.error->kind, ErrorKind::kInvalidArgument);
  EXPECT_FALSE(good.error);
  EXPECT_EQ(good.samples[0].token_ids.size(), 4u);
}

TEST(Core, LimitsItsQueue) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 1;
  config.max_num_queued_reqs = 2;
  CoreHarness harness(config);
  Record records[5];
  for (auto& record : records) harness.add(record, request_of(random_prompt(4, 1), 4));
  int refused = 0;
  for (auto& record : records) {
    if (!record.error) continue;
    ++refused;
    EXPECT_EQ(record.error->kind, ErrorKind::kUnavailable);
    EXPECT_EQ(record.error->message.find("The engine is currently busy"), 0u);
  }
  EXPECT_EQ(refused, 2);  // one place and two in the queue
  harness.run();
  EXPECT_NE(harness.metrics.text().find("reason=\"max_num_queued_reqs\"} 2.0"), std::string::npos);
}

TEST(Core, LimitsTheTokensOfItsQueue) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_queued_tokens = 10;
  CoreHarness harness(config);
  Record records[3];
  for (auto& record : records) harness.add(record, request_of(random_prompt(6, 1), 4));
  EXPECT_FALSE(records[1].error);
  ASSERT_TRUE(records[2].error);
  EXPECT_EQ(records[2].error->message.find("The engine has reached its prefill token backlog limit."), 0u);
  harness.run();
}

TEST(Core, KeepsToItsBudgets) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_batched_tokens = 24;
  config.max_num_seqs = 8;
  CoreHarness harness(config);
  std::vector<Record> records(20);
  for (int i = 0; i < 20; ++i) harness.add(records[i], request_of(random_prompt(50, i), 20));
  harness.executor.before_execute = [](const StepPlan& plan) { EXPECT_LE(plan.sequences.size(), 8u); };
  harness.run();
  EXPECT_EQ(harness.executor.largest_step, 24);
}

TEST(Core, PriorityGoesFirst) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 1;
  config.scheduling_policy = SchedulingPolicy::kPriority;
  CoreHarness harness(config);
  Record low, high;
  auto later = request_of(random_prompt(4, 1), 4);
  later.priority = 3;
  auto sooner = request_of(random_prompt(4, 2), 4);
  sooner.priority = -3;
  harness.add(low, later);
  harness.add(high, sooner);
  while (!high.finished()) harness.core.step();
  EXPECT_TRUE(low.samples.empty());
  harness.run();
}

TEST(Core, AnUnexpectedFaultFailsEveryoneAndStaysFailed) {
  CoreHarness harness;
  Record record, late;
  harness.add(record, request_of(random_prompt(4, 1), 50));
  harness.core.step();
  harness.core.fail_all();
  EXPECT_TRUE(record.error);
  EXPECT_FALSE(harness.core.has_work());
  harness.add(late, request_of(random_prompt(4, 1), 50));
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->kind, ErrorKind::kInternal);
}

TEST(Core, MetricsCountWhatHappened) {
  CoreHarness harness;
  Record records[2];
  auto request = request_of(random_prompt(20, 1), 10);
  harness.add(records[0], request);
  harness.run();
  request.params.n = 2;
  harness.add(records[1], request);
  harness.core.step();
  const auto expect_line = [&](const std::string& name, const std::string& label, const std::string& value) {
    const std::string text = harness.metrics.text();
    for (size_t at = text.find(name + "{"); at != std::string::npos; at = text.find(name + "{", at + 1)) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      if (line.find(label) != std::string::npos && line.ends_with("} " + value)) return;
    }
    ADD_FAILURE() << name << " " << label << " is not " << value;
  };
  expect_line("vllm:num_requests_running", "", "2.0");
  harness.run();
  expect_line("vllm:num_requests_running", "", "0.0");
  expect_line("vllm:num_requests_waiting", "", "0.0");
  expect_line("vllm:kv_cache_usage_perc", "", "0.0");
  expect_line("vllm:prompt_tokens_total", "", "40.0");
  expect_line("vllm:prompt_tokens_cached_total", "", "16.0");
  expect_line("vllm:prompt_tokens_by_source_total", "source=\"local_compute\"", "24.0");
  expect_line("vllm:generation_tokens_total", "", "30.0");
  expect_line("vllm:prefix_cache_queries_total", "", "40.0");
  expect_line("vllm:prefix_cache_hits_total", "", "16.0");
  expect_line("vllm:request_generation_tokens_count", "", "3.0");
  expect_line("vllm:time_to_first_token_seconds_count", "", "3.0");
  expect_line("vllm:inter_token_latency_seconds_count", "", "27.0");
}

TEST(Metrics, BucketsOfTokenCounts) {
  EXPECT_EQ(one_two_five_buckets(30), std::vector<double>({1, 2, 5, 10, 20}));
  EXPECT_EQ(one_two_five_buckets(0), std::vector<double>({1}));
}

}  // namespace
}  // namespace unspool
