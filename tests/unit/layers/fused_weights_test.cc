// Tensors that a checkpoint or an update has fused are those that it may have one by one.
#include "staging_fixture.h"

namespace unspool {
namespace {

constexpr int kExperts = 3;
const Shape kBoth{kExperts, 10, 6}, kDown{kExperts, 6, 5};

void describe_experts(WeightSet& weights) {
  std::vector<size_t> both, down;
  EXPECT_TRUE(weights.add_matrix({{"router", kExperts}}, 6).ok());
  for (int e = 0; e < kExperts; ++e) {
    const std::string name = "experts." + std::to_string(e);
    const size_t first = weights.parameters().size();
    both.insert(both.end(), {first, first + 1});
    down.push_back(first + 2);
    for (const char* part : {".gate", ".up"}) EXPECT_TRUE(weights.add_matrix({{name + part, 5}}, 6).ok());
    EXPECT_TRUE(weights.add_matrix({{name + ".down", 6}}, 5).ok());
  }
  weights.fuse("experts.both", kBoth, both);
  weights.fuse("experts.down", kDown, down);
}

class FusedWeightsTest : public testing::TestWithParam<DType> {
 protected:
  FusedWeightsTest() : weights_(plain_backend(), GetParam()) { describe_experts(weights_); }

  // Float32 tensors of any finite bits, one by one and fused.
  static std::vector<TestTensor> split(unsigned seed) {
    WeightSet weights(plain_backend(), DType::kFloat32);
    describe_experts(weights);
    std::mt19937 random(seed);
    std::vector<TestTensor> tensors;
    for (const Parameter& parameter : weights.parameters()) {
      std::string bytes(static_cast<size_t>(parameter.shape.num_elements()) * 4, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random() & 0x3f);
      tensors.push_back({parameter.name, "F32", parameter.shape.to_string(), bytes});
    }
    return tensors;
  }
  static std::vector<TestTensor> fused(const std::vector<TestTensor>& tensors) {
    TestTensor both{"experts.both", "F32", kBoth.to_string(), ""}, down{"experts.down", "F32", kDown.to_string(), ""};
    std::vector<TestTensor> all;
    for (const TestTensor& tensor : tensors) {
      if (tensor.name == "router")
        all.push_back(tensor);
      else
        (tensor.name.ends_with(".down") ? down : both).bytes += tensor.bytes;
    }
    all.push_back(both);
    all.push_back(down);
    return all;
  }
  Status load(const std::vector<TestTensor>& tensors) {
    TempDir dir;
    dir.write("model.safetensors", safetensors_of(tensors));
    const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
    UNSPOOL_TRY(weights_.check(checkpoint));
    weights_.load(checkpoint, [](size_t) {});
    return {};
  }
  static Status put(WeightStaging& staging, const TestTensor& tensor, const Shape& shape) {
    return staging.put(1, {.name = tensor.name, .dtype = DType::kFloat32, .shape = shape, .num_updates = {}},
                       std::as_bytes(std::span(tensor.bytes)));
  }

  WeightSet weights_;
};

TEST_P(FusedWeightsTest, ACheckpointMayHaveEither) {
  ASSERT_TRUE(load(split(1)).ok());
  const Content expected = content_of(weights_);
  weights_.zero();
  const Status status = load(fused(split(1)));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(content_of(weights_), expected);
}

TEST_P(FusedWeightsTest, ButNotBothNorAnotherShape) {
  auto tensors = fused(split(1));
  tensors.push_back(split(1)[1]);
  EXPECT_NE(load(tensors).error().message.find("experts.0.gate"), std::string::npos);
  tensors = fused(split(1));
  tensors.back().shape = "[3, 5, 6]";
  EXPECT_NE(load(tensors).error().message.find("experts.down"), std::string::npos);
  tensors.pop_back();
  EXPECT_NE(load(tensors).error().message.find("experts.0.down"), std::string::npos);
}

TEST_P(FusedWeightsTest, AnUpdateMayBringEither) {
  ASSERT_TRUE(load(split(2)).ok());
  const Content expected = content_of(weights_);
  for (const auto mode : {WeightUpdateMode::kDoubleBuffer, WeightUpdateMode::kInPlace}) {
    ASSERT_TRUE(load(split(1)).ok());
    WeightStaging staging(weights_, transfer_backend(), mode);
    const auto tensors = fused(split(2));
    staging.begin(1);
    ASSERT_TRUE(put(staging, tensors[0], {kExperts, 6}).ok());
    ASSERT_TRUE(put(staging, tensors[2], kDown).ok());
    EXPECT_EQ(staging.missing(), (std::vector<std::string>{"experts.0.gate", "experts.0.up", "experts.1.gate",
                                                           "experts.1.up", "experts.2.gate", "experts.2.up"}));
    EXPECT_FALSE(put(staging, tensors[1], {kExperts, 6, 10}).ok());
    ASSERT_TRUE(put(staging, tensors[1], kBoth).ok());
    EXPECT_TRUE(staging.missing(true).empty());
    ASSERT_TRUE(staging.commit().ok());
    EXPECT_EQ(content_of(weights_), expected);
  }
}

// The last element of one expert's gate, the first of its up, one of the last expert's: flat indices into the whole.
TEST_P(FusedWeightsTest, SparseElements) {
  auto tensors = split(1);
  ASSERT_TRUE(load(tensors).ok());
  WeightStaging staging(weights_, transfer_backend(), WeightUpdateMode::kDoubleBuffer);
  const std::vector<int32_t> indices = {130, 29, 30};
  const std::vector<float> values = {3.0f, 1.0f, 2.0f};
  const auto set = [&](const std::string& name, size_t index, float value) {
    for (TestTensor& tensor : tensors)
      if (tensor.name == name) std::memcpy(tensor.bytes.data() + 4 * index, &value, 4);
  };
  set("experts.0.gate", 29, 1.0f);
  set("experts.0.up", 0, 2.0f);
  set("experts.2.gate", 10, 3.0f);
  std::string bytes(reinterpret_cast<const char*>(indices.data()), 12);
  bytes.append(reinterpret_cast<const char*>(values.data()), 12);
  const TensorSpec spec{.name = "experts.both", .dtype = DType::kFloat32, .shape = kBoth, .num_updates = 3};
  staging.begin(1);
  ASSERT_TRUE(staging.put(1, spec, std::as_bytes(std::span(bytes))).ok());
  ASSERT_TRUE(staging.commit().ok());
  const Content got = content_of(weights_);
  ASSERT_TRUE(load(tensors).ok());
  EXPECT_EQ(got, content_of(weights_));

  const int32_t beyond = kExperts * 60;
  std::memcpy(bytes.data(), &beyond, 4);
  staging.begin(2);
  EXPECT_FALSE(staging.put(2, spec, std::as_bytes(std::span(bytes))).ok());
}

INSTANTIATE_TEST_SUITE_P(Served, FusedWeightsTest, testing::Values(DType::kBFloat16, DType::kFloat16, DType::kFloat32),
                         [](const auto& info) { return std::string(torch_name(info.param)); });

}  // namespace
}  // namespace unspool
