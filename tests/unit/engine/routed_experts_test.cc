// Which rows of routed experts a sample gets. That they are the same in every schedule is checked by expect_same()
// wherever requests are compared.
#include <gtest/gtest.h>

#include "control_harness.h"

namespace unspool {
namespace {

constexpr size_t kRow = 6;  // of the fake model: two layers, three experts

using Ids = std::vector<std::byte>;

Ids rows_of(const Ids& all, size_t first, size_t last) {
  return {all.begin() + static_cast<int64_t>(first * kRow), all.begin() + static_cast<int64_t>(last * kRow)};
}

TEST(RoutedExperts, OneRowATokenButTheLast) {
  for (const int max_tokens : {1, 2, 9}) {
    Record record = alone(request_of(random_prompt(20, 1), max_tokens));
    const auto& routed = record.samples[0].routed_experts;
    ASSERT_TRUE(routed);
    EXPECT_EQ(routed->rows(), 20 + max_tokens - 1);
    EXPECT_EQ(routed->shape.layers, 2);
    EXPECT_EQ(routed->shape.top_k, 3);
  }
}

TEST(RoutedExperts, ThePromptsRowsMayBeLeftOut) {
  const Record whole = alone(request_of(random_prompt(20, 1), 9));
  const Ids& ids = whole.samples.at(0).routed_experts->ids;
  for (const int start : {0, 1, 17, 19, 20}) {
    auto request = request_of(random_prompt(20, 1), 9);
    request.params.routed_experts_prompt_start = start;
    Record record = alone(request);
    EXPECT_EQ(record.samples[0].routed_experts->ids, rows_of(ids, static_cast<size_t>(start), 28)) << start;
  }
  auto none = request_of(random_prompt(20, 1), 1);
  none.params.routed_experts_prompt_start = 20;
  EXPECT_EQ(alone(none).samples[0].routed_experts->rows(), 0);
}

// Samples that wait for a place get the prompt's rows of the one that computed it.
TEST(RoutedExperts, EverySampleHasThePromptsRows) {
  EngineConfig config = CoreHarness::roomy();
  config.max_num_seqs = 2;
  CoreHarness harness(config);
  auto request = request_of(random_prompt(21, 2), 7, 100);
  request.params.n = 5;
  Record together;
  harness.add(together, request);
  harness.run();
  for (int i = 0; i < 5; ++i) {
    Record single = alone(request_of(random_prompt(21, 2), 7, 100 + i));
    expect_same(together.samples[i], single.samples[0]);
  }
}

TEST(RoutedExperts, AnAbortedSampleHasWhatWasComputed) {
  const Record whole = alone(request_of(random_prompt(30, 3), 40));
  EngineConfig config = CoreHarness::roomy();
  config.max_num_batched_tokens = 16;
  CoreHarness harness(config);
  Record early, late;
  auto request = request_of(random_prompt(30, 3), 40);
  request.external_id = "early";
  harness.add(early, request);
  harness.core.step();  // half of the prompt
  harness.core.abort({"early"});
  EXPECT_TRUE(early.finished());
  EXPECT_FALSE(early.samples[0].routed_experts);

  request.external_id = "late";
  harness.add(late, request);
  for (int i = 0; i < 5; ++i) harness.core.step();
  harness.core.abort({"late"});
  const auto& sample = late.samples[0];
  ASSERT_GT(sample.token_ids.size(), 1u);
  EXPECT_EQ(sample.routed_experts->ids,
            rows_of(whole.samples.at(0).routed_experts->ids, 0, 30 + sample.token_ids.size() - 1));
}

// What was drawn under the old weights keeps the experts that it was drawn by, whether its keys are kept or computed
// anew.
TEST(RoutedExperts, AnUpdateChangesNoRowThatWasUsed) {
  Record before = alone_under(0, long_request());
  for (const bool clear : {false, true}) {
    ControlHarness h;
    Record record, after;
    h.add(record, long_request());
    h.step(6);
    h.pause(PauseMode::kKeep, clear);
    EXPECT_TRUE(h.start_update().ok());
    EXPECT_TRUE(h.finish_update(false, "v1").ok());
    EXPECT_TRUE(h.resume().ok());
    h.add(after, long_request());
    h.run();
    const size_t used = 21 + static_cast<size_t>(record.samples[0].weight_versions[1].start) - 1;
    const Ids& ids = record.samples[0].routed_experts->ids;
    ASSERT_EQ(ids.size(), (21 + 40 - 1) * kRow);
    const Ids& old_ids = before.samples[0].routed_experts->ids;
    EXPECT_EQ(rows_of(ids, 0, used), rows_of(old_ids, 0, used));
    EXPECT_NE(rows_of(ids, used, used + 1), rows_of(old_ids, used, used + 1));
    Record want = alone_under(FakeMemory::weights_of("update"), long_request());
    expect_same(after, want);
  }
}

}  // namespace
}  // namespace unspool
