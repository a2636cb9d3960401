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
  // Loads the weights that were added from a checkpoint of these tensors.
  Status load(const std::vector<TestTensor>& tensors) {
    const TempDir dir;
    dir.write("model.safetensors", safetensors_of(tensors));
    const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
    UNSPOOL_TRY(weights_.check(checkpoint));
    weights_.load(checkpoint, [this](size_t bytes) { progress_ += bytes; });
    return {};
  }

  ThreadPool pool_{1};
  std::unique_ptr<Backend> backend_ = cpu::CpuBackend::create(pool_, "").value();
  WeightSet weights_{*backend_, DType::kFloat32};
  size_t progress_ = 0;
};

TEST_F(LinearTest, PartsLieOneBelowTheOther) {
  const Linear linear = Linear::add(weights_, {{"a", 1}, {"b", 2}}, 2, true).value();
  const Status status = load({{"a.weight", "F32", "[1,2]", floats({1, 2})},
                              {"a.bias", "F32", "[1]", floats({0.5f})},
                              {"b.weight", "F32", "[2,2]", floats({3, 4, 5, 6})},
                              {"b.bias", "F32", "[2]", floats({-1, 8})}});
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(progress_, 9 * sizeof(float));
  const float x[] = {10, 100};
  float y[] = {1000, 1000, 1000};
  const auto input = backend_->make_product_input(1, 2, DType::kFloat32, MatmulPrecision::kBf16).value();
  backend_->prepare(x, 1, 2, *input);
  linear.forward(*backend_, *input, y, 3, true);
  EXPECT_EQ(y[0], 1210.5f);
  EXPECT_EQ(y[1], 1429.0f);
  EXPECT_EQ(y[2], 1658.0f);
}

TEST_F(LinearTest, ErrorsNameTheTensor) {
  ASSERT_TRUE(Linear::add(weights_, {{"a", 2}}, 2, true).ok());
  const Status no_bias = load({{"a.weight", "F32", "[2,2]", floats({1, 2, 3, 4})}});
  ASSERT_FALSE(no_bias.ok());
  EXPECT_NE(no_bias.error().message.find("a.bias"), std::string::npos) << no_bias.error().message;
  const Status mis_shaped =
      load({{"a.weight", "F32", "[1,2]", floats({1, 2})}, {"a.bias", "F32", "[2]", floats({1, 2})}});
  ASSERT_FALSE(mis_shaped.ok());
  EXPECT_NE(mis_shaped.error().message.find("a.weight"), std::string::npos) << mis_shaped.error().message;
  EXPECT_NE(mis_shaped.error().message.find("[2, 2]"), std::string::npos) << mis_shaped.error().message;
}

}  // namespace
}  // namespace unspool
