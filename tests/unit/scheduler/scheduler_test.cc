#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <deque>

namespace unspool {
namespace {

class SchedulerTest : public ::testing::Test {
 protected:
  void start(SchedulerConfig config, KvCacheConfig cache) {
    cache_ = std::make_unique<KvCacheManager>(cache, 5);
    scheduler_ = std::make_unique<Scheduler>(config, *cache_);
  }
  Request& add(int prompt_length, int first_token = 0, int n = 1, int64_t priority = 0) {
    EngineRequest spec;
    for (int i = 0; i < prompt_length; ++i) spec.prompt_token_ids.push_back(first_token + i);
    spec.params.n = n;
    requests_.emplace_back(requests_.size() + 1, std::move(spec), 0,
                           ScheduleKey{priority, static_cast<int64_t>(requests_.size())});
    scheduler_->add(requests_.back().sequence(0));
    return requests_.back();
  }
  // Plans a step, "draws" a token for each sequence whose last token it computed, and gives the tokens per sequence.
  std::vector<int> step() {
    const StepPlan& plan = scheduler_->plan_step(0.0);
    std::vector<int> counts;
    for (const auto& s : plan.sequences) counts.push_back(static_cast<int>(s.token_ids.size()));
    commit();
    return counts;
  }
  void commit() {
    scheduler_->commit_step();
    for (Sequence* s : std::vector<Sequence*>(scheduler_->scheduled().begin(), scheduler_->scheduled().end())) {
      if (s == nullptr || s->num_tokens_to_compute() > 0) continue;
      if (!s->request.forked()) {
        scheduler_->fork(s->request);
        for (int i = 1; i < s->request.num_sequences(); ++i) s->request.sequence(i).append_token(7, "");
      }
      s->append_token(7, "");
    }
    for (const auto& violation : scheduler_->validate()) ADD_FAILURE() << violation;
  }

  std::unique_ptr<KvCacheManager> cache_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<Request> requests_;
};

using Counts = std::vector<int>;

TEST_F(SchedulerTest, DecodesRideAlongWithEveryChunk) {
  start({.max_num_seqs = 8, .max_num_batched_tokens = 10}, {.num_blocks = 100, .block_size = 4});
  add(3);
  EXPECT_EQ(step(), Counts({3}));
  add(25, 50);
  add(4, 90);
  EXPECT_EQ(step(), Counts({1, 9}));
  EXPECT_EQ(step(), Counts({1, 9}));
  EXPECT_EQ(step(), Counts({1, 7, 2}));
  EXPECT_EQ(step(), Counts({1, 1, 2}));
  EXPECT_EQ(step(), Counts({1, 1, 1}));
}

TEST_F(SchedulerTest, PlansRowsOfTheLastTokenAndOfPromptLogprobs) {
  start({.max_num_batched_tokens = 4}, {.num_blocks = 100, .block_size = 4});
  EngineRequest spec;
  spec.prompt_token_ids = {1, 2, 3, 4, 5, 6};
  spec.params.prompt_logprobs = 1;
  requests_.emplace_back(1, spec, 0, ScheduleKey{});
  scheduler_->add(requests_.back().sequence(0));
  const auto* plan = &scheduler_->plan_step(0.0);
  EXPECT_EQ(plan->sequences[0].logits_rows, Counts({0, 1, 2, 3}));
  EXPECT_EQ(plan->blocks_to_zero.size(), 0u);  // written whole
  for (int i = 0; i < 4; ++i) requests_.back().add_prompt_row({});
  commit();
  plan = &scheduler_->plan_step(0.0);
  EXPECT_EQ(plan->sequences[0].start, 4);
  EXPECT_EQ(plan->sequences[0].token_ids, std::vector<int32_t>({5, 6}));
  EXPECT_EQ(plan->blocks_to_zero, std::vector<int32_t>({plan->sequences[0].block_table[1]}));
  EXPECT_EQ(plan->sequences[0].logits_rows, Counts({0, 1}));
  commit();
}

TEST_F(SchedulerTest, AHitLeavesTheLastPromptToken) {
  start({}, {.num_blocks = 100, .block_size = 4});
  add(8);
  EXPECT_EQ(step(), Counts({8}));
  add(8);
  EXPECT_EQ(step(), Counts({1, 4}));
  EXPECT_EQ(requests_.back().num_cached_tokens, 4);
  add(9);
  EXPECT_EQ(step(), Counts({1, 1, 1}));
  EXPECT_EQ(requests_.back().num_cached_tokens, 8);
  const auto counters = scheduler_->take_counters();
  EXPECT_EQ(counters.prefix_queries, 25);
  EXPECT_EQ(counters.prefix_hits, 12);
}

TEST_F(SchedulerTest, TheLastAdmittedIsPreemptedAndComesBackFirst) {
  start({}, {.num_blocks = 7, .block_size = 4, .enable_prefix_caching = false});
  Request& first = add(8);
  Request& second = add(8);
  EXPECT_EQ(step(), Counts({8, 8}));  // two blocks each
  add(4);
  EXPECT_EQ(step(), Counts({1, 1}));  // three each; the newcomer finds no headroom
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(step(), Counts({1}));  // the first takes the last block, the second sits out and keeps what it has
  EXPECT_EQ(second.sequence(0).state, SequenceState::kRunning);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(), Counts({1}));
  EXPECT_EQ(second.sequence(0).state, SequenceState::kWaiting);
  EXPECT_EQ(second.sequence(0).num_preemptions, 1);
  const int kept = second.sequence(0).num_tokens();
  EXPECT_GT(kept, 8);
  scheduler_->remove(first.sequence(0));
  EXPECT_EQ(step()[0], kept);
  EXPECT_EQ(second.sequence(0).num_tokens(), kept + 1);
}

TEST_F(SchedulerTest, PriorityDecidesWhoIsAdmittedAndWhoIsPreempted) {
  start({.max_num_seqs = 1}, {.num_blocks = 100, .block_size = 4});
  Request& low = add(4, 0, 1, 5);
  Request& high = add(4, 50, 1, -5);
  step();
  EXPECT_EQ(high.sequence(0).state, SequenceState::kRunning);
  EXPECT_EQ(low.sequence(0).state, SequenceState::kWaiting);
}

TEST_F(SchedulerTest, SamplesBeyondTheLimitWait) {
  start({.max_num_seqs = 3}, {.num_blocks = 100, .block_size = 4});
  Request& request = add(6, 0, 5);
  EXPECT_EQ(step(), Counts({6}));
  EXPECT_EQ(scheduler_->num_running(), 3);
  EXPECT_EQ(scheduler_->num_waiting(), 2);
  const auto& plan = scheduler_->plan_step(0.0);
  ASSERT_EQ(plan.sequences.size(), 3u);
  EXPECT_EQ(plan.blocks_to_copy.size(), 2u);  // the last of three writes the shared block in place
  EXPECT_EQ(plan.blocks_to_zero.size(), 0u);  // copied whole
  commit();
  scheduler_->remove(request.sequence(0));
  EXPECT_EQ(step(), Counts({1, 1, 3}));  // a whole block is a hit; two prompt tokens and the output are computed
}

TEST_F(SchedulerTest, ASequenceThatOutgrowsTheCacheIsHandedBack) {
  start({}, {.num_blocks = 2, .block_size = 4});
  Request& request = add(7);
  step();
  step();
  EXPECT_EQ(request.sequence(0).num_tokens(), 9);
  EXPECT_TRUE(step().empty());
  ASSERT_EQ(scheduler_->take_outgrown().size(), 1u);
  EXPECT_FALSE(scheduler_->has_work());
  EXPECT_EQ(cache_->num_free_blocks(), 2);
}

TEST_F(SchedulerTest, AFailedStepLeavesNothing) {
  start({}, {.num_blocks = 8, .block_size = 4});
  Request& request = add(8);
  scheduler_->plan_step(0.0);
  scheduler_->remove(request.sequence(0));
  EXPECT_EQ(scheduler_->scheduled()[0], nullptr);
  scheduler_->abandon_step();
  EXPECT_EQ(cache_->num_free_blocks(), 8);
  EXPECT_EQ(cache_->num_cached_blocks(), 0);
  add(8);
  EXPECT_EQ(step(), Counts({8}));
}

TEST_F(SchedulerTest, CountsWhatWasNeverAdmitted) {
  start({.max_num_seqs = 1}, {.num_blocks = 100, .block_size = 4});
  add(4);
  Request& second = add(6, 50);
  EXPECT_EQ(scheduler_->num_queued(), 2);
  EXPECT_EQ(scheduler_->num_queued_tokens(), 10);
  step();
  EXPECT_EQ(scheduler_->num_queued(), 1);
  EXPECT_EQ(scheduler_->num_queued_tokens(), 6);
  scheduler_->remove(second.sequence(0));
  EXPECT_EQ(scheduler_->num_queued_tokens(), 0);
}

TEST_F(SchedulerTest, PausedNewStepsWhatHasBegun) {
  start({.max_num_seqs = 2, .max_num_batched_tokens = 20}, {.num_blocks = 100, .block_size = 4});
  add(3);
  add(3, 50, /*n=*/3);
  EXPECT_EQ(step(), Counts({3, 3}));  // one of the samples has no place yet, another took none
  add(3, 90, 1, /*priority=*/-1);
  scheduler_->set_pause(PauseState::kPausedNew);
  EXPECT_EQ(scheduler_->num_in_flight(), 4);
  scheduler_->preempt_all();
  EXPECT_EQ(scheduler_->num_running(), 0);
  EXPECT_TRUE(scheduler_->has_work());
  EXPECT_EQ(step(), Counts({4, 4}));
  for (int i = 0; i < 3; ++i) {
    scheduler_->remove(requests_[1].sequence(i));
  }
  scheduler_->remove(requests_[0].sequence(0));
  EXPECT_EQ(scheduler_->num_waiting(), 1);
  EXPECT_FALSE(scheduler_->has_work());
  EXPECT_EQ(step(), Counts());
  scheduler_->set_pause(PauseState::kUnpaused);
  EXPECT_EQ(step(), Counts({3}));
}

TEST_F(SchedulerTest, PausedAllStepsNothing) {
  start({.max_num_seqs = 8, .max_num_batched_tokens = 10}, {.num_blocks = 100, .block_size = 4});
  add(3);
  step();
  add(3, 50);
  scheduler_->set_pause(PauseState::kPausedAll);
  EXPECT_FALSE(scheduler_->has_work());
  EXPECT_EQ(step(), Counts());
  scheduler_->set_pause(PauseState::kUnpaused);
  EXPECT_EQ(step(), Counts({1, 3}));
}

TEST_F(SchedulerTest, KnowsWhoHoldsKeysOfOlderWeights) {
  start({.max_num_seqs = 8, .max_num_batched_tokens = 10}, {.num_blocks = 100, .block_size = 4});
  Sequence& sequence = add(3).sequence(0);
  step();
  scheduler_->weights_changed();
  step();
  EXPECT_TRUE(scheduler_->holds_mixed_weights());
  EXPECT_EQ(sequence.weight_versions.size(), 1u);
  scheduler_->preempt_all();
  EXPECT_FALSE(scheduler_->holds_mixed_weights());
  step();
  EXPECT_FALSE(scheduler_->holds_mixed_weights());
  EXPECT_EQ(sequence.weight_versions.size(), 2u);
}

}  // namespace
}  // namespace unspool
