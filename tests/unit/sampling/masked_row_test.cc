#include "sampling/masked_row.h"

#include <bit>
#include <random>

#include "fixture.h"

namespace unspool {
namespace {

constexpr int64_t kSize = 5 * kVocabBlock + 77;

// A mask that leaves all of one block, nothing of the next, and of the others a part.
std::vector<uint32_t> some_mask(std::mt19937_64& random) {
  std::vector<uint32_t> mask(static_cast<size_t>(kSize + 31) / 32);
  const auto block_of = [](size_t word) { return word * 32 / kVocabBlock; };
  for (size_t i = 0; i < mask.size(); ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const auto few = static_cast<uint32_t>(random() & random() & random());
    mask[i] = block_of(i) == 0 ? ~0U : block_of(i) == 1 ? 0U : block_of(i) == 2 ? few : block_of(i) == 3 ? ~few : bits;
  }
  return mask;
}

TEST(MaskedRow, HasTheValuesAndTheStatsOfAMaskedCopy) {
  const VocabKernels& kernels = reference_vocab_kernels();
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  MaskedRow row(kernels);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(kSize);
    for (float& value : logits) value = normal(random);
    std::vector<BlockStat> known(vocab_blocks(kSize));
    kernels.block_stats(logits.data(), kSize, known.data());
    const std::vector<uint32_t> mask = some_mask(random);
    std::vector<float> copy = logits;
    for (int64_t i = 0; i < kSize; ++i) {
      if ((mask[i / 32] >> (i % 32) & 1U) == 0) copy[i] = -kInfinity;
    }
    std::vector<BlockStat> expected(known.size());
    kernels.block_stats(copy.data(), kSize, expected.data());

    row.reset(mask, logits, known);
    EXPECT_EQ(std::vector<float>(row.values().begin(), row.values().end()), copy);
    EXPECT_TRUE(row.logits_finite());
    ASSERT_EQ(row.blocks().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(row.blocks()[i].max), std::bit_cast<uint32_t>(expected[i].max)) << i;
      EXPECT_EQ(std::bit_cast<uint32_t>(row.blocks()[i].sum), std::bit_cast<uint32_t>(expected[i].sum)) << i;
    }
    row.reset(mask, logits, {});
    EXPECT_TRUE(row.logits_finite());
    EXPECT_TRUE(row.blocks().empty());
  }
}

TEST(MaskedRow, HidesNothingThatIsNotFinite) {
  const VocabKernels& kernels = reference_vocab_kernels();
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
    std::vector<float> logits(600, 1.0f);
    logits[300] = bad;
    std::vector<BlockStat> known(vocab_blocks(600));
    kernels.block_stats(logits.data(), 600, known.data());
    const std::vector<uint32_t> mask = {1U};  // shorter than the row: the rest is barred
    MaskedRow row(kernels);
    row.reset(mask, logits, known);
    EXPECT_FALSE(row.logits_finite());
    EXPECT_EQ(row.values()[300], -kInfinity);
    row.reset(mask, logits, {});
    EXPECT_FALSE(row.logits_finite());
  }
}

}  // namespace
}  // namespace unspool
