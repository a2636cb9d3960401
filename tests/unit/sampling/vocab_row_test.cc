#include "sampling/vocab_row.h"

#include <bit>
#include <random>

#include "fixture.h"

namespace unspool {
namespace {

void expect_merged_alike(const std::vector<BlockStat>& blocks) {
  const BlockStat expected = merge_block_stats(blocks.data(), static_cast<int64_t>(blocks.size()));
  const BlockStat got = merge_blocks(reference_vocab_kernels(), blocks);
  ASSERT_EQ(std::bit_cast<uint32_t>(got.max), std::bit_cast<uint32_t>(expected.max));
  ASSERT_EQ(std::bit_cast<uint32_t>(got.sum), std::bit_cast<uint32_t>(expected.sum));
}

TEST(VocabRow, MergesWithTheContractsBits) {
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal(0.0f, 10.0f);
  std::uniform_real_distribution<float> sum(1.0f, 256.0f);
  for (int i = 0; i < 500; ++i) {
    std::vector<BlockStat> blocks(1 + random() % 700);
    for (BlockStat& block : blocks) {
      block = {normal(random), sum(random)};
      if (random() % 4 == 0) block = {-kInfinity, 0.0f};
    }
    expect_merged_alike(blocks);
  }
  expect_merged_alike({{-kInfinity, 0.0f}});
  expect_merged_alike(std::vector<BlockStat>(300, {-kInfinity, 0.0f}));
}

TEST(VocabRow, TheLastBlockMayBeShort) {
  const std::vector<float> values(600, 1.5f);
  VocabRow row(reference_vocab_kernels());
  row.reset(values);
  ASSERT_EQ(row.blocks().size(), 3u);
  EXPECT_EQ(row.block(0).size(), 256u);
  EXPECT_EQ(row.block(2).size(), 88u);
  EXPECT_EQ(row.blocks()[2].sum, 88.0f);
  EXPECT_EQ(row.max(), 1.5f);
}

}  // namespace
}  // namespace unspool
