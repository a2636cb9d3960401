#include "layers/linear.h"

#include <gtest/gtest.h>

#include <cstring>

#include "../weights/weights_test_util.h"
#include "backend/cpu/cpu_backend.h"

namespace unspool {
namespace {

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class LinearTest : public testing::Test {
 protected:
  // f(loader) over a checkpoint of these tensors, served in float32 or `dtype`.
  template <class F>
  void with(const std::vector<TestTensor>& tensors, F&& f, DType dtype = DType::kFloat32) {
    const TempDir dir;
    dir.write("model.safetensors", safetensors_of(tensors));
    const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
    WeightLoader weights(checkpoint);
    const LoadProgress progress = [this](size_t bytes) { progress_ += bytes; };
    LayerLoader loader{*backend_, weights, dtype, progress};
    f(loader);
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = cpu::CpuBackend::create(pool_, "").value();
  size_t progress_ = 0;
};

TEST_F(LinearTest, PartsLieOneBelowTheOther) {
  const std::vector<TestTensor> tensors = {{"a.weight", "F32", "[1,2]", floats({1, 2})},
                                           {"a.bias", "F32", "[1]", floats({0.5f})},
                                           {"b.weight", "F32", "[2,2]", floats({3, 4, 5, 6})},
                                           {"b.bias", "F32", "[2]", floats({-1, 8})}};
  with(tensors, [&](LayerLoader& loader) {
    auto linear = Linear::load(loader, {{"a", 1}, {"b", 2}}, 2, true);
    ASSERT_TRUE(linear.ok()) << linear.error().message;
    const float x[] = {10, 100};
    float y[] = {1000, 1000, 1000};
    const auto input = backend_->make_product_input(1, 2, DType::kFloat32, MatmulPrecision::kBf16).value();
    backend_->prepare(x, 1, 2, *input);
    linear->forward(*backend_, *input, y, 3, true);
    EXPECT_EQ(y[0], 1210.5f);
    EXPECT_EQ(y[1], 1429.0f);
    EXPECT_EQ(y[2], 1658.0f);
  });
  EXPECT_EQ(progress_, 9 * sizeof(float));
}

TEST_F(LinearTest, VectorsAreRoundedToTheServedType) {
  const std::vector<TestTensor> tensors = {{"v", "F32", "[2]", floats({1.0f + 0x1p-12f, 3.0f})}};
  with(
      tensors, [](LayerLoader& loader) { EXPECT_EQ(loader.vector("v", 2).value(), (std::vector<float>{1.0f, 3.0f})); },
      DType::kBFloat16);
  with(tensors, [](LayerLoader& loader) { EXPECT_EQ(loader.vector("v", 2).value()[0], 1.0f + 0x1p-12f); });
}

TEST_F(LinearTest, ErrorsNameTheTensor) {
  const std::vector<TestTensor> tensors = {{"a.weight", "F32", "[1,2]", floats({1, 2})}};
  with(tensors, [](LayerLoader& loader) {
    const auto no_bias = Linear::load(loader, {{"a", 1}}, 2, true);
    ASSERT_FALSE(no_bias.ok());
    EXPECT_NE(no_bias.error().message.find("a.bias"), std::string::npos) << no_bias.error().message;
  });
  with(tensors, [](LayerLoader& loader) {
    const auto mis_shaped = Linear::load(loader, {{"a", 2}}, 2, false);
    ASSERT_FALSE(mis_shaped.ok());
    EXPECT_NE(mis_shaped.error().message.find("a.weight"), std::string::npos) << mis_shaped.error().message;
    EXPECT_NE(mis_shaped.error().message.find("[2, 2]"), std::string::npos) << mis_shaped.error().message;
  });
}

}  // namespace
}  // namespace unspool
