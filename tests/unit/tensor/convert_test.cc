#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tensor/convert.h"

namespace unspool {
namespace {

float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

TEST(ConvertTest, EveryBf16SurvivesTheWayThere) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const uint32_t magnitude = i & 0x7fffu;
    uint16_t expected = half;
    if (magnitude < 0x80u) expected = half & 0x8000u;  // subnormal: a signed zero
    if (magnitude > 0x7f80u) expected = half | 0x40u;  // NaN: quiet
    EXPECT_EQ(float_to_bf16(bf16_to_float(half)), expected) << i;
  }
}

TEST(ConvertTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(float_to_bf16(from_bits(0x3f808000)), 0x3f80);  // a tie goes to the even neighbour below
  EXPECT_EQ(float_to_bf16(from_bits(0x3f818000)), 0x3f82);  // and above
  EXPECT_EQ(float_to_bf16(from_bits(0x3f808001)), 0x3f81);
  EXPECT_EQ(float_to_bf16(from_bits(0x3f807fff)), 0x3f80);
  EXPECT_EQ(float_to_bf16(from_bits(0x7f7fffff)), 0x7f80);  // overflow to infinity
  EXPECT_EQ(float_to_bf16(from_bits(0xff7fffff)), 0xff80);
  EXPECT_EQ(float_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(ConvertTest, Bf16FlushesSubnormalsBeforeRounding) {
  EXPECT_EQ(float_to_bf16(from_bits(0x007fffff)), 0x0000);  // rounding alone would give the smallest normal
  EXPECT_EQ(float_to_bf16(from_bits(0x80000001)), 0x8000);
  EXPECT_EQ(float_to_bf16(from_bits(0x00800000)), 0x0080);
}

TEST(ConvertTest, Bf16KeepsSignAndTopBitsOfNaN) {
  EXPECT_EQ(float_to_bf16(from_bits(0x7f800001)), 0x7fc0);  // the payload lay below: not an infinity
  EXPECT_EQ(float_to_bf16(from_bits(0xffa50000)), 0xffe5);
}

TEST(ConvertTest, EveryF16SurvivesTheWayThere) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const uint16_t expected = (i & 0x7fffu) > 0x7c00u ? half | 0x200u : half;
    EXPECT_EQ(float_to_f16(f16_to_float(half)), expected) << i;
  }
}

TEST(ConvertTest, F16ValuesAreExact) {
  EXPECT_EQ(f16_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(f16_to_float(0x03ff), 1023 * 0x1p-24f);
  EXPECT_EQ(f16_to_float(0x0400), 0x1p-14f);
  EXPECT_EQ(f16_to_float(0x3c00), 1.0f);
  EXPECT_EQ(f16_to_float(0xfbff), -65504.0f);
  EXPECT_TRUE(std::signbit(f16_to_float(0x8000)));
}

// Between neighbours the nearer one wins, and a tie the even one; over every pair, subnormals and the step to infinity
// too.
TEST(ConvertTest, F16RoundsToNearestEven) {
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float low = f16_to_float(static_cast<uint16_t>(i));
    const float high = i == 0x7bff ? 65536.0f : f16_to_float(static_cast<uint16_t>(i + 1));
    const float middle = low + (high - low) / 2;
    const uint16_t even = static_cast<uint16_t>(i % 2 == 0 ? i : i + 1);
    EXPECT_EQ(float_to_f16(middle), even) << i;
    EXPECT_EQ(float_to_f16(std::nextafter(middle, 0.0f)), i) << i;
    EXPECT_EQ(float_to_f16(std::nextafter(middle, 1e9f)), i + 1) << i;
    EXPECT_EQ(float_to_f16(-middle), even | 0x8000) << i;
  }
}

TEST(ConvertTest, F16OfTheSmallestAndLargest) {
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(float_to_f16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_f16(from_bits(0x7f800001)), 0x7e00);
}

}  // namespace
}  // namespace unspool
