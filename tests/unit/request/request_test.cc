#include "request/request.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

EngineRequest spec(int prompt_length, int n) {
  EngineRequest request;
  request.prompt_token_ids.assign(prompt_length, 5);
  request.params.n = n;
  return request;
}

TEST(Request, ForksIntoItsSamples) {
  Request request(3, spec(4, 3), 100, {.priority = 1, .arrival = 7});
  EXPECT_EQ(request.num_sequences(), 1);
  request.fork();
  ASSERT_EQ(request.num_sequences(), 3);
  EXPECT_EQ(request.seed_of(2), 102u);
  EXPECT_NE(request.sequence(0).id, request.sequence(1).id);
  EXPECT_LT(request.sequence(0).key, request.sequence(1).key);
  EXPECT_EQ(request.sequence(2).num_tokens(), 4);
}

TEST(Request, IsFinishedWhenAllSamplesAre) {
  Request request(3, spec(4, 2), 0, {});
  request.sequence(0).state = SequenceState::kFinished;
  EXPECT_FALSE(request.all_finished());
  request.fork();
  EXPECT_FALSE(request.all_finished());
  request.sequence(1).state = SequenceState::kFinished;
  EXPECT_TRUE(request.all_finished());
}

TEST(Request, WantsEachPromptRowOnce) {
  auto wanted = spec(4, 1);
  wanted.params.prompt_logprobs = 0;
  Request request(1, wanted, 0, {});
  EXPECT_EQ(request.first_wanted_prompt_row(), 0);
  EXPECT_EQ(request.max_cached_tokens(request.sequence(0)), 0);
  request.add_prompt_row({{5, -1.0f, 1}});
  EXPECT_EQ(request.max_cached_tokens(request.sequence(0)), 1);
  request.add_prompt_row({{5, -1.0f, 1}});
  request.add_prompt_row({{5, -1.0f, 1}});
  EXPECT_EQ(request.first_wanted_prompt_row(), 3);
  const auto logprobs = request.take_prompt_logprobs();
  ASSERT_EQ(logprobs.size(), 4u);
  EXPECT_TRUE(logprobs[0].empty());
  EXPECT_EQ(request.first_wanted_prompt_row(), 3);
  EXPECT_EQ(request.max_cached_tokens(request.sequence(0)), 3);
}

TEST(Request, ReadsNoCacheWhereToldSo) {
  auto told = spec(9, 1);
  told.params.skip_reading_prefix_cache = true;
  Request request(1, told, 0, {});
  EXPECT_EQ(request.max_cached_tokens(request.sequence(0)), 0);
}

TEST(Sequence, OpensASpanPerWeightVersion) {
  Request request(1, spec(2, 1), 0, {});
  Sequence& sequence = request.sequence(0);
  sequence.append_token(1, "a");
  sequence.append_token(2, "a");
  sequence.append_token(3, "b");
  ASSERT_EQ(sequence.weight_versions.size(), 2u);
  EXPECT_EQ(sequence.weight_versions[0].end, 2);
  EXPECT_EQ(sequence.weight_versions[1].version, "b");
  EXPECT_EQ(sequence.weight_versions[1].start, 2);
  EXPECT_EQ(sequence.weight_versions[1].end, 3);
  EXPECT_EQ(sequence.num_tokens_to_compute(), 5);
}

}  // namespace
}  // namespace unspool
