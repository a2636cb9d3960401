#include "weights/dummy_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tensor/cast.h"
#include "weights/checkpoint.h"

namespace unspool {
namespace {

std::vector<float> floats(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> out(bytes.size() / static_cast<size_t>(dtype_size(dtype)));
  cast_elements(bytes.data(), dtype, static_cast<int64_t>(out.size()), DType::kFloat32, out.data());
  return out;
}

TEST(DummyStreamTest, SmallNumbersOfBothSigns) {
  const auto stream = DummyStream::create(100'000, DType::kFloat32);
  ASSERT_TRUE(stream.ok());
  const std::vector<float> numbers = floats(stream->first(100'000), DType::kFloat32);
  double sum = 0.0, squares = 0.0;
  for (const float x : numbers) {
    ASSERT_TRUE(x >= -1e-3f && x < 1e-3f) << x;
    sum += static_cast<double>(x);
    squares += static_cast<double>(x) * static_cast<double>(x);
  }
  EXPECT_NEAR(sum / 1e5, 0.0, 1e-5);  // 5.5 standard deviations of a uniform mean
  EXPECT_NEAR(std::sqrt(squares / 1e5), 1e-3 / std::sqrt(3.0), 5e-6);
  EXPECT_GT(std::set<float>(numbers.begin(), numbers.end()).size(), 99'000u);
}

// Of every machine and of every version: a change here changes what is served.
TEST(DummyStreamTest, TheNumbersStay) {
  EXPECT_EQ(DummyStream::number(0), 0x1.91ee36p-11f);
  EXPECT_EQ(DummyStream::number(1), -0x1.1f3148p-13f);
  EXPECT_EQ(DummyStream::number(1'000'000), 0x1.3fde9p-11f);
}

TEST(DummyStreamTest, ABeginningIsTheSameWhateverWasAskedBefore) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    const auto a = DummyStream::create(9000, dtype), b = DummyStream::create(9000, dtype);
    ASSERT_TRUE(a.ok() && b.ok());
    const auto at_once = a->first(9000);
    b->first(17);
    b->first(5000);
    const auto by_parts = b->first(9000);
    ASSERT_EQ(at_once.size(), by_parts.size());
    EXPECT_EQ(std::memcmp(at_once.data(), by_parts.data(), at_once.size()), 0);
    b->drop();
    EXPECT_EQ(std::memcmp(at_once.data(), b->first(300).data(), 300 * static_cast<size_t>(dtype_size(dtype))), 0);
  }
}

TEST(DummyStreamTest, AsACheckpoint) {
  const auto checkpoint =
      Checkpoint::dummy("/nowhere", {{"b", Shape{3, 4}}, {"a", Shape{5}}, {"none", Shape{0}}}, DType::kBFloat16);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b", "none"}));
  EXPECT_EQ(checkpoint->total_bytes(), 34u);
  EXPECT_EQ(checkpoint->dir(), "/nowhere");
  EXPECT_EQ(checkpoint->find("c"), std::nullopt);
  EXPECT_EQ(checkpoint->changed_file(), std::nullopt);
  const auto a = checkpoint->find("a"), b = checkpoint->find("b");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(b->shape, (Shape{3, 4}));
  EXPECT_EQ(a->dtype, DType::kBFloat16);
  EXPECT_EQ(std::memcmp(a->bytes.data(), b->bytes.data(), 10), 0);
  checkpoint->drop_pages();
  EXPECT_NE(floats(checkpoint->find("b")->bytes, DType::kBFloat16)[11], 0.0f);
}

}  // namespace
}  // namespace unspool
