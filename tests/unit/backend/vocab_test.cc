// The vocabulary kernels of every instruction set against the plain ones.
#include <cmath>
#include <limits>

#include "backend/reference/vocab_reference.h"
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kSizes[] = {1, 2, 15, 16, 17, 255, 256, 257, 511, 512, 513, 1000, 4099};

// Rows of logits of every sort: ordinary, with ties, masked in places, masked in whole blocks.
std::vector<std::vector<float>> rows(int64_t n) {
  Random random(31);
  std::vector<std::vector<float>> all;
  all.push_back(random.values(n));
  all.push_back(random.values(n, Values::kAny));
  auto ties = random.values(n);
  for (float& x : ties) x = static_cast<float>(static_cast<int>(x * 4.0f)) * 5.0f;
  all.push_back(ties);
  auto masked = random.values(n);
  for (float& x : masked) x = random.below(10) == 0 ? x * 30.0f : -kInf;
  all.push_back(masked);
  auto blocks = random.values(n);
  for (int64_t i = 0; i < n; ++i)
    if (i / kVocabBlock % 2 == 0) blocks[static_cast<size_t>(i)] = -kInf;
  all.push_back(blocks);
  all.emplace_back(static_cast<size_t>(n), -kInf);
  all.emplace_back(static_cast<size_t>(n), 0.25f);
  return all;
}

// The sign of a zero maximum is no matter: x - 0 and x - -0 are the same but for x = 0, whose exponential is 1 either
// way.
testing::AssertionResult same_stats(const std::vector<BlockStat>& expected, const std::vector<BlockStat>& actual) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i].max != actual[i].max || !equal_bits(expected[i].sum, actual[i].sum))
      return testing::AssertionFailure() << "block " << i << ": expected {" << expected[i].max << ", "
                                         << expected[i].sum << "}, got {" << actual[i].max << ", " << actual[i].sum
                                         << "}";
  return testing::AssertionSuccess();
}

class VocabTest : public testing::Test {
 protected:
  FloatModeGuard mode_;
  const VocabKernels& reference_ = reference_vocab_kernels();
};

TEST_F(VocabTest, BlockStats) {
  for (const int64_t n : kSizes)
    for (const auto& x : rows(n)) {
      std::vector<BlockStat> expected(static_cast<size_t>((n + kVocabBlock - 1) / kVocabBlock)), got(expected.size());
      reference_.block_stats(x.data(), n, expected.data());
      for (const KernelTable* table : tables()) {
        table->vocab.block_stats(x.data(), n, got.data());
        EXPECT_TRUE(same_stats(expected, got)) << table->name << ", " << n;
      }
    }
}

TEST_F(VocabTest, BlockStatsTellWhatIsNotFinite) {
  for (const float fill : {0.5f, -kInf})
    for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()})
      for (const int64_t n : {int64_t{1}, int64_t{37}, int64_t{kVocabBlock}})
        for (int64_t at = 0; at < n; ++at) {
          std::vector<float> x(static_cast<size_t>(n), fill);
          x[static_cast<size_t>(at)] = bad;
          BlockStat stat;
          reference_.block_stats(x.data(), n, &stat);
          EXPECT_TRUE(std::isnan(stat.sum));
          for (const KernelTable* table : tables()) {
            table->vocab.block_stats(x.data(), n, &stat);
            EXPECT_TRUE(std::isnan(stat.sum)) << table->name << ", " << bad << " at " << at << " of " << n;
          }
        }
}

TEST_F(VocabTest, Elementwise) {
  for (const int64_t n : kSizes)
    for (const auto& x : rows(n)) {
      std::vector<float> expected(x.size()), y(x.size());
      auto check = [&](auto kernel, float argument) {
        (reference_.*kernel)(x.data(), n, argument, expected.data());
        for (const KernelTable* table : tables()) {
          (table->vocab.*kernel)(x.data(), n, argument, y.data());
          EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << n;
          auto in_place = x;
          (table->vocab.*kernel)(in_place.data(), n, argument, in_place.data());
          EXPECT_TRUE(same_bits(expected, in_place)) << table->name << ", " << n;
        }
      };
      check(&VocabKernels::exp_shifted, 0.7f);
      check(&VocabKernels::scale, 1.3f);
      check(&VocabKernels::divide, 0.7f);
    }
}

TEST_F(VocabTest, SearchesAndCounts) {
  for (const int64_t n : kSizes)
    for (const auto& x : rows(n))
      for (const KernelTable* table : tables()) {
        EXPECT_EQ(reference_.argmax(x.data(), n), table->vocab.argmax(x.data(), n)) << table->name << ", " << n;
        for (const float threshold : {-kInf, -0.5f, 0.0f, 0.25f, x[static_cast<size_t>(n / 2)], kInf}) {
          EXPECT_EQ(reference_.count_at_least(x.data(), n, threshold),
                    table->vocab.count_at_least(x.data(), n, threshold));
          for (const int64_t capacity : {int64_t{0}, int64_t{5}, n}) {
            std::vector<int32_t> expected(static_cast<size_t>(n) + 1, -1), got(expected);
            const int64_t count = reference_.select_at_least(x.data(), n, threshold, expected.data(), capacity);
            EXPECT_EQ(count, table->vocab.select_at_least(x.data(), n, threshold, got.data(), capacity)) << table->name;
            EXPECT_EQ(expected, got) << table->name << ", " << n << " at least " << threshold;
          }
        }
      }
}

TEST_F(VocabTest, FindsWhatIsNotFinite) {
  for (const int64_t n : kSizes)
    for (const KernelTable* table : tables()) {
      std::vector<float> x(static_cast<size_t>(n), 1.0f);
      x[0] = -kInf;
      EXPECT_TRUE(table->vocab.no_nan_or_positive_inf(x.data(), n));
      for (const float bad : {kInf, std::numeric_limits<float>::quiet_NaN()})
        for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
          auto y = x;
          y[static_cast<size_t>(at)] = bad;
          EXPECT_FALSE(table->vocab.no_nan_or_positive_inf(y.data(), n)) << table->name << ", at " << at << " of " << n;
        }
    }
}

TEST_F(VocabTest, MergeGoesLeftToRight) {
  const BlockStat none{-kInf, 0.0f};
  const BlockStat stats[] = {none, {1.0f, 2.0f}, none, {3.0f, 4.0f}, {2.0f, 1.0f}, none};
  const BlockStat total = merge_block_stats(stats, 6);
  EXPECT_EQ(total.max, 3.0f);
  EXPECT_FLOAT_EQ(total.sum, 2.0f * std::exp(-2.0f) + 4.0f + std::exp(-1.0f));
  const BlockStat empty = merge_block_stats(&none, 1);
  EXPECT_EQ(empty.max, -kInf);
  EXPECT_EQ(empty.sum, 0.0f);
  EXPECT_EQ(merge_block_stats(stats + 1, 1).sum, 2.0f);  // exp(-inf) is 0 and exp(0) is 1: one block is itself
}

}  // namespace
}  // namespace unspool::cpu
