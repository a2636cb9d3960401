#include "kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace unspool {
namespace {

TEST(BlockPool, HandsOutTheLongestFreeFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), 1);
  pool.release(1, true);
  pool.release(0, true);
  EXPECT_EQ(pool.allocate(), 2);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), 0);
  EXPECT_EQ(pool.allocate(), kNoBlock);
  EXPECT_EQ(pool.num_free(), 0);
}

TEST(BlockPool, UsesWhatIsNotWorthKeepingBeforeWhatWasNeverTouched) {
  BlockPool pool(4);
  const BlockId first = pool.allocate(), second = pool.allocate();
  pool.release(first, true);
  pool.release(second, false);
  EXPECT_EQ(pool.allocate(), second);
  EXPECT_EQ(pool.allocate(), 2);
}

TEST(BlockPool, AFreeBlockCanBeTakenBack) {
  BlockPool pool(2);
  const BlockId block = pool.allocate();
  pool.retain(block);
  pool.release(block, true);
  EXPECT_EQ(pool.num_free(), 1);
  pool.release(block, true);
  EXPECT_EQ(pool.num_free(), 2);
  pool.retain(block);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.allocate(), 1);
  EXPECT_EQ(pool.allocate(), kNoBlock);
  EXPECT_TRUE(pool.validate(std::vector<int>{1, 1}).empty());
}

TEST(BlockPool, APinnedBlockIsNotHandedOut) {
  BlockPool pool(1);
  const BlockId block = pool.allocate();
  pool.pin(block);
  pool.pin(block);
  pool.release(block, true);
  EXPECT_EQ(pool.allocate(), kNoBlock);
  EXPECT_TRUE(pool.validate(std::vector<int>{0}).empty());
  pool.unpin_all();
  EXPECT_EQ(pool.allocate(), block);
}

TEST(BlockPool, ReportsReferencesThatNobodyHolds) {
  BlockPool pool(2);
  pool.allocate();
  EXPECT_EQ(pool.validate(std::vector<int>{0, 0}).size(), 1u);
}

TEST(BlockPool, RefusesToReleaseWhatIsFree) {
  BlockPool pool(1);
  EXPECT_THROW(pool.release(0, true), CheckFailure);
}

}  // namespace
}  // namespace unspool
