#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tensor/buffer.h"
#include "tensor/tensor_view.h"

namespace unspool {
namespace {

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST(DTypeTest, NamesParseBack) {
  for (int i = 0; i <= static_cast<int>(DType::kComplex64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_safetensors_dtype(safetensors_name(dtype)), dtype);
    EXPECT_EQ(parse_torch_dtype(torch_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_torch_dtype("torch.bfloat16"), DType::kBFloat16);
  EXPECT_EQ(parse_torch_dtype("half"), DType::kFloat16);
  EXPECT_EQ(parse_torch_dtype("auto"), std::nullopt);
  EXPECT_EQ(parse_safetensors_dtype("bf16"), std::nullopt);
}

TEST(DTypeTest, Sizes) {
  EXPECT_EQ(dtype_size(DType::kFloat32), 4);
  EXPECT_EQ(dtype_size(DType::kBFloat16), 2);
  EXPECT_EQ(dtype_bits(DType::kFloat4), 4);
  EXPECT_THROW(dtype_size(DType::kFloat4), CheckFailure);
  EXPECT_TRUE(is_float_weight(DType::kFloat16));
  EXPECT_FALSE(is_float_weight(DType::kFloat64));
}

TEST(ShapeTest, CountsElements) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ((Shape{2, 3}).num_elements(), 6);
  const int64_t huge = int64_t{1} << 32;
  EXPECT_EQ((Shape{huge, huge}).checked_num_elements(), std::nullopt);
  EXPECT_EQ((Shape{huge, huge, 0}).checked_num_elements(), 0);
  EXPECT_THROW((Shape{huge, huge}).num_elements(), CheckFailure);
  EXPECT_THROW((Shape{-1}), CheckFailure);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), CheckFailure);
}

TEST(ShapeTest, AxesAndText) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.dim(-1), 4);
  EXPECT_EQ(shape[1], 3);
  EXPECT_THROW(shape.dim(3), CheckFailure);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_NE(shape, (Shape{2, 3}));
}

TEST(TensorViewTest, CountsBytes) {
  EXPECT_EQ((TensorView{nullptr, DType::kBFloat16, {3, 5}}).size_bytes(), 30u);
  EXPECT_EQ((TensorView{nullptr, DType::kFloat4, {2, 4}}).size_bytes(), 4u);
}

TEST(BufferTest, IsAlignedZeroedAndLazy) {
  const size_t size = (size_t{64} << 20) + 5;
  const int64_t before = resident_bytes();
  auto buffer = Buffer::allocate(size);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size_bytes(), size);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kHugePage, 0u);
  EXPECT_LT(resident_bytes() - before, int64_t{8} << 20);
  EXPECT_EQ(buffer->as<uint8_t>()[size - 1], 0);
}

// What has the size of a layer's matrix: alone it would fill no huge page.
TEST(BufferTest, SmallOnesLieSideBySide) {
  constexpr size_t kPage = 4096, kSize = 200 * kPage - 100;
  std::vector<Buffer> buffers;
  std::vector<uintptr_t> starts;
  for (int i = 0; i < 50; ++i) {
    buffers.push_back(Buffer::allocate(kSize).value());
    starts.push_back(reinterpret_cast<uintptr_t>(buffers.back().data()));
  }
  std::sort(starts.begin(), starts.end());
  int neighbours = 0;
  for (size_t i = 1; i < starts.size(); ++i) neighbours += starts[i] - starts[i - 1] == 200 * kPage;
  EXPECT_GT(neighbours, 40);
}

TEST(BufferTest, ReleaseReturnsMemoryToTheSystem) {
  const size_t size = size_t{64} << 20;
  auto buffer = Buffer::allocate(size);
  ASSERT_TRUE(buffer.ok());
  std::memset(buffer->data(), 1, size);
  const int64_t touched = resident_bytes();
  buffer->release();
  EXPECT_TRUE(buffer->empty());
  EXPECT_EQ(buffer->size_bytes(), 0u);
  EXPECT_GT(touched - resident_bytes(), int64_t{60} << 20);
}

TEST(BufferTest, Moves) {
  auto first = Buffer::allocate(100);
  ASSERT_TRUE(first.ok());
  first->as<char>()[99] = 'x';
  Buffer second = std::move(*first);
  EXPECT_TRUE(first->empty());
  EXPECT_EQ(second.as<char>()[99], 'x');
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.as<char>()[99], 'x');
}

TEST(BufferTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(Buffer::allocate(std::numeric_limits<size_t>::max()).ok());
  EXPECT_FALSE(Buffer::allocate(size_t{1} << 60).ok());
  auto none = Buffer::allocate(0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
}

}  // namespace
}  // namespace unspool
