// Every tensor's bits, as loaded, read back, written, released and allocated again.
#include "layers/weight_set.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "../weights/weights_test_util.h"
#include "backend/cpu/cpu_backend.h"

namespace unspool {
namespace {

struct Case {
  DType dtype;
  const char* name;
};

class WeightSetTest : public testing::TestWithParam<Case> {
 protected:
  // Two tensors that share a panel, one of its own, and vectors side by side.
  WeightSetTest() {
    EXPECT_TRUE(weights_.add_matrix({{"q", 20}, {"k", 7}}, 10).ok());
    EXPECT_TRUE(weights_.add_matrix({{"o", 33}}, 6).ok());
    norms_ = weights_.add_vector({{"n", 5}, {"m", 3}});
    std::mt19937 random(17);
    for (const Parameter& parameter : weights_.parameters()) {
      std::string bytes(parameter.size_bytes(GetParam().dtype), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random() & 0x3f);  // finite in every type
      std::string shape = parameter.shape.to_string();
      tensors_.push_back({parameter.name, GetParam().name, shape, bytes});
    }
    dir_.write("model.safetensors", safetensors_of(tensors_));
    const Checkpoint checkpoint = Checkpoint::open(dir_.path()).value();
    const Status status = weights_.check(checkpoint);
    EXPECT_TRUE(status.ok()) << status.error().message;
    weights_.load(checkpoint, [](size_t) {});
  }

  std::string bytes_of(size_t i) const {
    const auto bytes = weights_.read(weights_.parameters()[i]);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void expect_loaded() const {
    for (size_t i = 0; i < tensors_.size(); ++i) EXPECT_EQ(bytes_of(i), tensors_[i].bytes) << tensors_[i].name;
  }
  void expect_zero() const {
    for (size_t i = 0; i < tensors_.size(); ++i)
      EXPECT_EQ(bytes_of(i), std::string(tensors_[i].bytes.size(), '\0')) << tensors_[i].name;
  }

  ThreadPool pool_{2};
  std::unique_ptr<Backend> backend_ = cpu::CpuBackend::create(pool_, "").value();
  WeightSet weights_{*backend_, GetParam().dtype};
  std::span<const float> norms_;
  std::vector<TestTensor> tensors_;
  TempDir dir_;
};

TEST_P(WeightSetTest, ReadsTheBytesThatWereLoaded) {
  expect_loaded();
}

TEST_P(WeightSetTest, WritesWhatItRead) {
  std::vector<std::vector<std::byte>> saved;
  for (const Parameter& parameter : weights_.parameters()) saved.push_back(weights_.read(parameter));
  weights_.zero();
  expect_zero();
  for (size_t i = 0; i < saved.size(); ++i) weights_.write(weights_.parameters()[i], saved[i]);
  expect_loaded();
}

TEST_P(WeightSetTest, StorageComesBack) {
  std::vector<std::vector<std::byte>> saved;
  for (const auto bytes : weights_.storage()) saved.emplace_back(bytes.begin(), bytes.end());
  const size_t size_bytes = weights_.size_bytes();
  weights_.release();
  EXPECT_TRUE(weights_.is_released());
  EXPECT_EQ(weights_.size_bytes(), size_bytes);
  for (const auto bytes : weights_.storage()) EXPECT_TRUE(bytes.empty());
  ASSERT_TRUE(weights_.allocate().ok());
  const auto storage = weights_.storage();
  ASSERT_EQ(storage.size(), saved.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    for (const std::byte byte : storage[i]) ASSERT_EQ(byte, std::byte{0});
    ASSERT_EQ(storage[i].size(), saved[i].size());
    std::copy(saved[i].begin(), saved[i].end(), storage[i].begin());
  }
  expect_loaded();
}

TEST_P(WeightSetTest, AnotherCheckpointIsCheckedAndChangesNothing) {
  std::vector<TestTensor> tensors = tensors_;
  tensors.pop_back();
  TempDir dir;
  dir.write("model.safetensors", safetensors_of(tensors));
  EXPECT_FALSE(weights_.check(Checkpoint::open(dir.path()).value()).ok());
  expect_loaded();
}

INSTANTIATE_TEST_SUITE_P(Types, WeightSetTest,
                         testing::Values(Case{DType::kBFloat16, "BF16"}, Case{DType::kFloat16, "F16"},
                                         Case{DType::kFloat32, "F32"}),
                         [](const auto& info) { return info.param.name; });

TEST(WeightSetRoundingTest, VectorsAreRoundedToTheServedType) {
  ThreadPool pool(1);
  const auto backend = cpu::CpuBackend::create(pool, "").value();
  const float values[] = {1.0f + 0x1p-12f, 3.0f};
  const TempDir dir;
  dir.write("model.safetensors",
            safetensors_of({{"v", "F32", "[2]", {reinterpret_cast<const char*>(values), sizeof values}}}));
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
  for (const auto& [dtype, first] : {std::pair{DType::kBFloat16, 1.0f}, std::pair{DType::kFloat32, values[0]}}) {
    WeightSet weights(*backend, dtype);
    const std::span<const float> vector = weights.add_vector({{"v", 2}});
    weights.load(checkpoint, [](size_t) {});
    EXPECT_EQ(vector[0], first);
    EXPECT_EQ(vector[1], 3.0f);
  }
}

}  // namespace
}  // namespace unspool
