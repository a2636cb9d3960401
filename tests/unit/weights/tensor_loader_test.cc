#include "weights/tensor_loader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "weights_test_util.h"

namespace unspool {
namespace {

class WeightLoaderTest : public testing::Test {
 protected:
  Checkpoint open(const std::vector<TestTensor>& tensors) {
    dir_.write("model.safetensors", safetensors_of(tensors));
    auto checkpoint = Checkpoint::open(dir_.path());
    EXPECT_TRUE(checkpoint.ok());
    return std::move(checkpoint).value();
  }
  TempDir dir_;
};

TEST_F(WeightLoaderTest, HandsOutWhatIsThere) {
  const Checkpoint checkpoint = open({{"a", "F32", "[1]", "1234"}, {"b", "BF16", "[1,2]", "1234"}});
  WeightLoader loader(checkpoint);
  EXPECT_TRUE(loader.has("a"));
  EXPECT_FALSE(loader.has("c"));
  EXPECT_TRUE(loader.take("a", {1}).ok());
  const auto b = loader.take("b", {1, 2});
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->dtype, DType::kBFloat16);
  EXPECT_TRUE(loader.finish().ok());
  EXPECT_THROW((void)loader.take("a", {1}), CheckFailure);
}

TEST_F(WeightLoaderTest, NamesWhatIsMissingOrOfAnotherKind) {
  const Checkpoint checkpoint = open({{"a", "F32", "[1]", "1234"}, {"q", "F8_E4M3", "[4]", "1234"}});
  WeightLoader loader(checkpoint);
  const auto message = [&](std::string_view name, Shape shape) { return loader.take(name, shape).error().message; };
  EXPECT_EQ(message("c", {2}), dir_.path() + ": tensor \"c\" is missing; expected it with shape [2]");
  EXPECT_EQ(message("a", {2, 3}), dir_.path() + ": tensor \"a\": expected shape [2, 3], got [1]");
  EXPECT_EQ(message("q", {4}), dir_.path() + ": tensor \"q\": expected dtype F32, BF16 or F16, got F8_E4M3");
}

TEST_F(WeightLoaderTest, ListsWhatIsLeftOver) {
  const Checkpoint one = open({{"a.bias", "F32", "[1]", "1234"}});
  EXPECT_EQ(WeightLoader(one).finish().error().message,
            dir_.path() + ": 1 tensor that the model does not have: \"a.bias\"");
  std::vector<TestTensor> tensors;
  for (int i = 10; i < 23; ++i) tensors.push_back({fmt::format("t{}", i), "U8", "[1]", "x"});
  const Checkpoint many = open(tensors);
  const std::string message = WeightLoader(many).finish().error().message;
  EXPECT_NE(message.find("13 tensors"), std::string::npos) << message;
  EXPECT_NE(message.find("\"t19\" and 3 more"), std::string::npos) << message;
}

TEST_F(WeightLoaderTest, LeavesOutTablesThatTheModelComputes) {
  const Checkpoint checkpoint = open({{"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", "[1]", "1234"}});
  EXPECT_TRUE(WeightLoader(checkpoint).finish().ok());
}

TEST_F(WeightLoaderTest, ATiedHeadMayBeAbsentEqualOrDifferent) {
  const TestTensor embedding{"embed", "F32", "[1]", "1234"};
  for (const std::string bytes : {"", "1234", "9999"}) {
    std::vector<TestTensor> tensors{embedding};
    if (!bytes.empty()) tensors.push_back({"lm_head.weight", "F32", "[1]", bytes});
    const Checkpoint checkpoint = open(tensors);
    WeightLoader loader(checkpoint);
    EXPECT_TRUE(loader.take("embed", {1}).ok());
    testing::internal::CaptureStderr();
    loader.accept_tied("lm_head.weight", "embed");
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log.find("ties lm_head.weight to embed") != std::string::npos, bytes == "9999") << log;
    EXPECT_TRUE(loader.finish().ok());
  }
}

}  // namespace
}  // namespace unspool
