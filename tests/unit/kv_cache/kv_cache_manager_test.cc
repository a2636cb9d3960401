#include "kv_cache/kv_cache_manager.h"

#include <gtest/gtest.h>

#include <numeric>

namespace unspool {
namespace {

class KvCacheManagerTest : public ::testing::Test {
 protected:
  std::vector<int32_t> count_from(int first, int count) {
    std::vector<int32_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  BlockTable computed(const std::vector<int32_t>& tokens, std::string_view salt = "") {
    BlockTable table;
    EXPECT_TRUE(cache_.reserve(table, 0, static_cast<int>(tokens.size())));
    cache_.commit(table, {tokens, {}}, salt, static_cast<int>(tokens.size()));
    cache_.end_step();
    return table;
  }
  int hit(const std::vector<int32_t>& tokens, std::string_view salt = "", int max_tokens = 1000) {
    BlockTable table;
    const int found = cache_.match_prefix({tokens, {}}, salt, max_tokens, table);
    cache_.release(table);
    return found;
  }
  void expect_valid(std::vector<const BlockTable*> tables) {
    for (const auto& violation : cache_.validate(tables)) ADD_FAILURE() << violation;
  }

  KvCacheManager cache_{{.num_blocks = 8, .block_size = 4}, 99};
};

TEST_F(KvCacheManagerTest, ReservesAllOrNothing) {
  BlockTable a, b;
  EXPECT_TRUE(cache_.reserve(a, 0, 25));
  EXPECT_EQ(a.blocks.size(), 7u);
  EXPECT_EQ(a.first_new, 0);
  EXPECT_FALSE(cache_.reserve(b, 0, 5));
  EXPECT_TRUE(b.blocks.empty());
  EXPECT_EQ(cache_.num_free_blocks(), 1);
  EXPECT_EQ(cache_.reservable_end(b, 0), 4);
  EXPECT_EQ(cache_.reservable_end(a, 25), 32);
  EXPECT_TRUE(cache_.reserve(b, 0, 3));
  EXPECT_EQ(cache_.reservable_end(b, 4), 4);
  EXPECT_DOUBLE_EQ(cache_.usage(), 1.0);
  expect_valid({&a, &b});
}

TEST_F(KvCacheManagerTest, WholeBlocksAreHitsAfterCommitAndOutliveTheirSequence) {
  const auto tokens = count_from(0, 11);
  BlockTable table;
  ASSERT_TRUE(cache_.reserve(table, 0, 11));
  EXPECT_EQ(hit(tokens), 0);
  cache_.commit(table, {tokens, {}}, "", 7);
  EXPECT_EQ(hit(tokens), 4);
  cache_.commit(table, {tokens, {}}, "", 11);
  EXPECT_EQ(hit(tokens), 8);
  EXPECT_EQ(hit(tokens, "", 7), 4);
  EXPECT_EQ(hit(tokens, "salt"), 0);
  cache_.release(table);
  EXPECT_EQ(hit(tokens), 8);
  expect_valid({});
}

TEST_F(KvCacheManagerTest, WhatIsNotWorthKeepingIsForgottenAndUsedAgainFirst) {
  const auto tokens = count_from(0, 16);
  auto table = computed(tokens);
  const BlockId third = table.blocks[2];
  cache_.release(table, 6);
  EXPECT_EQ(hit(tokens), 8);
  BlockTable other;
  ASSERT_TRUE(cache_.reserve(other, 0, 1));
  EXPECT_EQ(other.blocks[0], third);
  expect_valid({&other});
}

TEST_F(KvCacheManagerTest, WhatAnotherSequenceSharesIsKept) {
  const auto tokens = count_from(0, 16);
  auto table = computed(tokens);
  BlockTable other;
  ASSERT_EQ(cache_.match_prefix({tokens, {}}, "", 16, other), 16);
  cache_.release(table, 4);
  EXPECT_EQ(hit(tokens), 16);
  expect_valid({&other});
}

TEST_F(KvCacheManagerTest, AReusedBlockIsForgottenTailFirst) {
  const auto tokens = count_from(0, 16);
  auto table = computed(tokens);
  cache_.release(table);
  BlockTable other;
  ASSERT_TRUE(cache_.reserve(other, 0, 5 * 4));
  EXPECT_EQ(hit(tokens), 12);
  expect_valid({&other});
}

TEST_F(KvCacheManagerTest, TheOutputIsIndexedWithThePrompt) {
  const auto prompt = count_from(0, 6);
  const auto output = count_from(6, 3);
  BlockTable table;
  ASSERT_TRUE(cache_.reserve(table, 0, 9));
  cache_.commit(table, {prompt, output}, "", 9);
  EXPECT_EQ(hit(count_from(0, 9)), 8);
}

TEST_F(KvCacheManagerTest, ForksShareAndCopyThePartialBlockOnWriting) {
  auto parent = computed(count_from(0, 6));
  BlockTable child;
  cache_.fork(parent, child);
  EXPECT_EQ(child.blocks, parent.blocks);
  const BlockId shared = parent.blocks[1];
  ASSERT_TRUE(cache_.reserve(parent, 6, 7));
  EXPECT_EQ(parent.copy_from, shared);
  EXPECT_EQ(parent.first_new, 1);
  EXPECT_NE(parent.blocks[1], shared);
  ASSERT_TRUE(cache_.reserve(child, 6, 7));
  EXPECT_EQ(child.copy_from, kNoBlock);
  EXPECT_EQ(child.blocks[1], shared);
  // The source of the copy stays out of reach until the step is over.
  cache_.release(child);
  EXPECT_EQ(cache_.num_free_blocks(), 5);
  cache_.end_step();
  EXPECT_EQ(cache_.num_free_blocks(), 6);
  expect_valid({&parent});
}

TEST_F(KvCacheManagerTest, AForkAtABlockBoundaryCopiesNothing) {
  auto parent = computed(count_from(0, 8));
  BlockTable child;
  cache_.fork(parent, child);
  ASSERT_TRUE(cache_.reserve(child, 8, 9));
  EXPECT_EQ(child.copy_from, kNoBlock);
  EXPECT_EQ(child.first_new, 2);
  expect_valid({&parent, &child});
}

TEST_F(KvCacheManagerTest, InvalidationReachesBlocksInFlight) {
  const auto tokens = count_from(0, 8);
  auto old = computed(tokens);
  BlockTable in_flight;
  const auto others = count_from(50, 8);
  ASSERT_TRUE(cache_.reserve(in_flight, 0, 8));
  cache_.invalidate_prefixes();
  cache_.commit(in_flight, {others, {}}, "", 8);
  EXPECT_EQ(hit(tokens), 0);
  EXPECT_EQ(hit(others), 0);
  cache_.release(in_flight);
  cache_.release(old);
  auto fresh = computed(others);
  EXPECT_EQ(hit(others), 8);
  expect_valid({&fresh});
}

TEST_F(KvCacheManagerTest, CanBeSwitchedOff) {
  KvCacheManager cache({.num_blocks = 4, .block_size = 4, .enable_prefix_caching = false}, 1);
  const auto tokens = count_from(0, 8);
  BlockTable table, second;
  ASSERT_TRUE(cache.reserve(table, 0, 8));
  cache.commit(table, {tokens, {}}, "", 8);
  EXPECT_EQ(cache.match_prefix({tokens, {}}, "", 8, second), 0);
}

TEST(TokenView, CopiesAcrossThePromptsEnd) {
  const std::vector<int32_t> prompt{1, 2, 3}, output{4, 5};
  const TokenView view{prompt, output};
  for (int start = 0; start <= 5; ++start) {
    for (int count = 0; start + count <= 5; ++count) {
      std::vector<int32_t> copied(count);
      view.copy(start, count, copied.data());
      for (int i = 0; i < count; ++i) EXPECT_EQ(copied[i], start + i + 1);
    }
  }
  EXPECT_EQ(view.at(2), 3);
  EXPECT_EQ(view.at(3), 4);
}

}  // namespace
}  // namespace unspool
