#include "layers/rotary.h"

#include <cmath>

#include "../support/bits.h"
#include "base/check.h"

namespace unspool {
namespace {

const std::vector<float> kFrequencies = {1.0f, 0.31622776f, 0.1f, 0.031622775f, 0.001f};
constexpr int64_t kPositions = 1000;

struct Gathered {
  std::vector<float> cos, sin;
};
Gathered gather(RotaryEmbedding& rotary, const std::vector<int32_t>& positions) {
  const auto n = positions.size() * static_cast<size_t>(rotary.half());
  Gathered g{std::vector<float>(n), std::vector<float>(n)};
  rotary.gather(positions, g.cos.data(), g.sin.data());
  return g;
}

TEST(RotaryTest, IsTheCosineAndSineOfTheFloatAngle) {
  RotaryEmbedding rotary(kFrequencies, kPositions);
  ASSERT_EQ(rotary.half(), 5);
  for (const int32_t position : {0, 1, 17, 255, 256, 511, 512, 999}) {
    const Gathered g = gather(rotary, {position});
    for (size_t j = 0; j < kFrequencies.size(); ++j) {
      const float angle = static_cast<float>(position) * kFrequencies[j];  // as trainers round it
      EXPECT_EQ(g.cos[j], static_cast<float>(std::cos(static_cast<double>(angle)))) << position << ", " << j;
      EXPECT_EQ(g.sin[j], static_cast<float>(std::sin(static_cast<double>(angle)))) << position << ", " << j;
    }
  }
}

TEST(RotaryTest, TheAttentionFactorMultipliesBoth) {
  RotaryEmbedding plain(kFrequencies, kPositions), scaled(kFrequencies, kPositions, 1.1902380714238083);
  const std::vector<int32_t> positions = {0, 3, 999};
  const Gathered a = gather(plain, positions), b = gather(scaled, positions);
  const auto factor = static_cast<float>(1.1902380714238083);
  for (size_t i = 0; i < a.cos.size(); ++i) {
    EXPECT_EQ(b.cos[i], a.cos[i] * factor);
    EXPECT_EQ(b.sin[i], a.sin[i] * factor);
  }
}

TEST(RotaryTest, TheOrderOfAskingIsNoMatter) {
  RotaryEmbedding ascending(kFrequencies, kPositions), other(kFrequencies, kPositions);
  gather(other, {999, 3});
  const std::vector<int32_t> positions = {700, 3, 3, 255, 256, 0};
  const Gathered a = gather(ascending, positions), b = gather(other, positions);
  EXPECT_TRUE(same_bits(a.cos, b.cos));
  EXPECT_TRUE(same_bits(a.sin, b.sin));
  EXPECT_TRUE(same_bits(std::span(a.cos).subspan(5, 5), std::span(a.cos).subspan(10, 5)));
}

TEST(RotaryTest, PositionsPastTheMaximumAreChecked) {
  RotaryEmbedding rotary(kFrequencies, 256);
  EXPECT_THROW(gather(rotary, {256}), CheckFailure);
  EXPECT_THROW(gather(rotary, {-1}), CheckFailure);
}

}  // namespace
}  // namespace unspool
