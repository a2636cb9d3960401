#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace unspool {
namespace {

using Counter = std::array<uint32_t, 4>;

// Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, IsTheFirst53BitsOfItsCounter) {
  EXPECT_EQ(uniform(0, 0, RandomPurpose::kDraw), std::ldexp(static_cast<double>(0x6627e8d5e169c58dull >> 11), -53));
}

TEST(Uniform, StaysBelowOne) {
  double lowest = 1.0, highest = 0.0;
  for (int64_t position = 0; position < 200'000; ++position) {
    const double u = uniform(3, position, RandomPurpose::kDraw);
    lowest = std::min(lowest, u);
    highest = std::max(highest, u);
  }
  EXPECT_GE(lowest, 0.0);
  EXPECT_LT(highest, 1.0);
  EXPECT_LT(lowest, 1e-4);
  EXPECT_GT(highest, 1.0 - 1e-4);
}

TEST(Uniform, EveryPartOfTheKeyCounts) {
  std::set<double> seen;
  const uint64_t seeds[] = {0, 1, uint64_t{1} << 32, ~uint64_t{0}};
  const int64_t positions[] = {0, 1, int64_t{1} << 32, int64_t{1} << 40};
  for (const uint64_t seed : seeds) {
    for (const int64_t position : positions) {
      for (const auto purpose : {RandomPurpose::kDraw, RandomPurpose::kAcceptDraft, RandomPurpose::kResidualDraw}) {
        seen.insert(uniform(seed, position, purpose));
      }
    }
  }
  EXPECT_EQ(seen.size(), 48u);
}

// Neighbouring seeds and positions are what requests have: correlation of n pairs is about n^-1/2 where there is none.
TEST(Uniform, NeighboursAreIndependent) {
  constexpr int kPairs = 100'000;
  double by_position = 0.0, by_seed = 0.0, by_purpose = 0.0, mean = 0.0;
  for (int i = 0; i < kPairs; ++i) {
    const double u = uniform(42, i, RandomPurpose::kDraw) - 0.5;
    mean += u;
    by_position += u * (uniform(42, i + 1, RandomPurpose::kDraw) - 0.5);
    by_seed += u * (uniform(43, i, RandomPurpose::kDraw) - 0.5);
    by_purpose += u * (uniform(42, i, RandomPurpose::kAcceptDraft) - 0.5);
  }
  constexpr double kVariance = 1.0 / 12.0;
  const double four_sigma = 4.0 / std::sqrt(kPairs);
  EXPECT_LT(std::abs(by_position / kPairs / kVariance), four_sigma);
  EXPECT_LT(std::abs(by_seed / kPairs / kVariance), four_sigma);
  EXPECT_LT(std::abs(by_purpose / kPairs / kVariance), four_sigma);
  EXPECT_LT(std::abs(mean / kPairs), four_sigma * std::sqrt(kVariance));
}

}  // namespace
}  // namespace unspool
