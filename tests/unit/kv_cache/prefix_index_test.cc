#include "kv_cache/prefix_index.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixIndex, FindsByTokensParentAndSalt) {
  PrefixIndex index(8, 2, 7);
  const ContentId first = index.insert(3, 0, "salt", Tokens{1, 2});
  const ContentId second = index.insert(5, first, "salt", Tokens{1, 2});
  EXPECT_EQ(index.find(0, "salt", Tokens{1, 2})->block, 3);
  EXPECT_EQ(index.find(first, "", Tokens{1, 2})->block, 5);
  EXPECT_EQ(index.find(first, "", Tokens{1, 2})->content, second);
  EXPECT_FALSE(index.find(0, "", Tokens{1, 2}));
  EXPECT_FALSE(index.find(0, "other", Tokens{1, 2}));
  EXPECT_FALSE(index.find(0, "salt", Tokens{2, 1}));
  EXPECT_FALSE(index.find(second, "", Tokens{1, 2}));
  EXPECT_TRUE(index.validate().empty());
}

TEST(PrefixIndex, KeepsTheFirstOfEqualContents) {
  PrefixIndex index(8, 2, 7);
  const ContentId content = index.insert(0, 0, "", Tokens{1, 2});
  EXPECT_EQ(index.insert(1, 0, "", Tokens{1, 2}), content);
  EXPECT_EQ(index.find(0, "", Tokens{1, 2})->block, 0);
  index.forget(1);
  EXPECT_EQ(index.size(), 1);
  index.forget(0);
  EXPECT_FALSE(index.find(0, "", Tokens{1, 2}));
  EXPECT_NE(index.insert(1, 0, "", Tokens{1, 2}), content);
}

TEST(PrefixIndex, ACollisionMissesAndNeverServesOtherContent) {
  PrefixIndex index(64, 1, 7, /*key_bits=*/0);  // every key is equal
  const ContentId first = index.insert(0, 0, "", Tokens{1});
  EXPECT_NE(index.insert(1, 0, "", Tokens{2}), first);
  EXPECT_EQ(index.find(0, "", Tokens{1})->block, 0);
  EXPECT_FALSE(index.find(0, "", Tokens{2}));
  EXPECT_FALSE(index.find(0, "salt", Tokens{1}));
  EXPECT_FALSE(index.find(first, "", Tokens{1}));
  EXPECT_TRUE(index.validate().empty());
}

TEST(PrefixIndex, WhatFollowsAForgottenParentIsNotReachedThroughItsSuccessor) {
  PrefixIndex index(8, 1, 7);
  const ContentId parent = index.insert(0, 0, "", Tokens{1});
  index.insert(1, parent, "", Tokens{2});
  index.forget(0);
  const ContentId again = index.insert(2, 0, "", Tokens{1});
  EXPECT_FALSE(index.find(again, "", Tokens{2}));
  index.clear();
  EXPECT_EQ(index.size(), 0);
  EXPECT_FALSE(index.find(0, "", Tokens{1}));
}

}  // namespace
}  // namespace unspool
