#include "weights/checkpoint.h"

#include <gtest/gtest.h>

#include "weights_test_util.h"

namespace unspool {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::string one_tensor(const std::string& name, const std::string& bytes = "x") {
  return safetensors_of({{name, "U8", "[" + std::to_string(bytes.size()) + "]", bytes}});
}

void expect_refused(const TempDir& dir, const std::string& part) {
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_FALSE(checkpoint.ok()) << "expected an error with: " << part;
  EXPECT_NE(checkpoint.error().message.find(part), std::string::npos) << checkpoint.error().message;
  EXPECT_NE(checkpoint.error().message.find(dir.path()), std::string::npos) << checkpoint.error().message;
}

TEST(CheckpointTest, SingleFile) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_of({{"b", "U8", "[2]", "xy"}, {"a", "F32", "[1]", "1234"}}));
  dir.write("training_state.safetensors", "not a part of the model");
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(checkpoint->total_bytes(), 6u);
  const auto tensor = checkpoint->find("b");
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->shape, (Shape{2}));
  checkpoint->drop_pages();
  EXPECT_EQ(tensor->bytes[1], std::byte{'y'});
  EXPECT_FALSE(checkpoint->find("c").has_value());
}

TEST(CheckpointTest, SingleFileOfAnotherName) {
  const TempDir dir;
  dir.write("weights.safetensors", one_tensor("a"));
  EXPECT_TRUE(Checkpoint::open(dir.path()).ok());
}

TEST(CheckpointTest, Shards) {
  const TempDir dir;
  dir.write("s1.safetensors", one_tensor("a", "1"));
  dir.write("s2.safetensors", one_tensor("b", "22"));
  dir.write("unlisted.safetensors", "not a part of the model");
  dir.write(kIndex, R"({"metadata":{"total_size":3},"weight_map":{"b":"s2.safetensors","a":"s1.safetensors"}})");
  auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Checkpoint moved = std::move(checkpoint).value();
  EXPECT_EQ(moved.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(moved.find("b")->bytes[0], std::byte{'2'});
}

// What trainers, PEFT and Mistral's own tools leave beside a model.
constexpr const char* kStrays[] = {"consolidated.safetensors",
                                   "consolidated-00001-of-00002.safetensors",
                                   "adapter_model.safetensors",
                                   "training_args.bin",
                                   "optimizer.safetensors",
                                   "optimizer.pt",
                                   "scheduler.pt",
                                   "rng_state.pth",
                                   "training_args.safetensors"};

TEST(CheckpointTest, StrayFilesArePassedOver) {
  const TempDir dir;
  for (const char* name : kStrays) dir.write(name, one_tensor("stray"));
  expect_refused(dir, "no weights of a model: adapter_model.safetensors is none of its files");
  dir.write("weights.safetensors", one_tensor("a"));
  const auto expect_names = [&](const std::vector<std::string>& names) {
    const auto checkpoint = Checkpoint::open(dir.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->names(), names);
  };
  expect_names({"a"});
  dir.write("model.safetensors", one_tensor("b"));
  expect_names({"b"});
  dir.write(kIndex, R"({"weight_map":{"b":"model.safetensors","a":"weights.safetensors"}})");
  expect_names({"a", "b"});
}

TEST(CheckpointTest, NumberedShardsWithoutAnIndex) {
  const TempDir dir;
  dir.write("model-00001-of-00003.safetensors", one_tensor("a"));
  dir.write("model-00003-of-00003.safetensors", one_tensor("c"));
  dir.write("consolidated.safetensors", one_tensor("a"));
  expect_refused(dir, "model-00002-of-00003.safetensors is missing, of 3 shards");
  dir.write("model-00002-of-00003.safetensors", one_tensor("b"));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->names(), (std::vector<std::string>{"a", "b", "c"}));
  dir.write("model-00002-of-00003.safetensors", one_tensor("c"));
  expect_refused(dir, "tensor \"c\" is in ");
  for (const char* other : {"model-00001-of-00002.safetensors", "other-00001-of-00003.safetensors", "x.safetensors",
                            "model-1-of-3.safetensors", "-00001-of-00003.safetensors"}) {
    dir.write(other, one_tensor("d"));
    expect_refused(dir, "4 safetensors files");
    std::filesystem::remove(dir.path() + "/" + other);
  }
}

// As in the hub's cache, where a model's files are links to blobs of another directory.
TEST(CheckpointTest, ShardsMayBeLinks) {
  const TempDir blobs, dir;
  blobs.write("0123abcd", one_tensor("a"));
  std::filesystem::create_symlink(blobs.path() + "/0123abcd", dir.path() + "/s1.safetensors");
  dir.write(kIndex, R"({"weight_map":{"a":"s1.safetensors"}})");
  EXPECT_TRUE(Checkpoint::open(dir.path()).ok());
}

TEST(CheckpointTest, RefusesAnIndexThatDisagrees) {
  const TempDir dir;
  dir.write("s1.safetensors", one_tensor("a"));
  dir.write("s2.safetensors", one_tensor("b"));
  const auto index = [&](const std::string& map) { dir.write(kIndex, R"({"weight_map":{)" + map + "}}"); };
  index(R"("a":"s1.safetensors","b":"s2.safetensors","c":"s2.safetensors")");
  expect_refused(dir, "puts \"c\" into \"s2.safetensors\", which does not have it");
  index(R"("a":"s2.safetensors","b":"s1.safetensors")");
  expect_refused(dir, "which does not have it");
  index(R"("b":"s2.safetensors","a":"s3.safetensors")");
  expect_refused(dir, "weight_map puts \"a\" into \"s3.safetensors\", which is not there");
  index(R"("a":"s1.safetensors","a":"s2.safetensors","b":"s2.safetensors")");
  expect_refused(dir, "given twice");
  dir.write("s1.safetensors", safetensors_of({{"a", "U8", "[1]", "x"}, {"extra", "U8", "[1]", "x"}}));
  index(R"("a":"s1.safetensors","b":"s2.safetensors")");
  expect_refused(dir, "does not name \"extra\", which \"s1.safetensors\" has");
  dir.write("s1.safetensors", safetensors_of({{"a", "U8", "[1]", "x"}, {"b", "U8", "[1]", "x"}}));
  expect_refused(dir, "tensor \"b\" is in ");
}

TEST(CheckpointTest, RefusesAMalformedIndex) {
  const TempDir dir;
  dir.write("s1.safetensors", one_tensor("a"));
  for (const std::string name :
       {"../s1.safetensors", "/etc/passwd", "sub/s1.safetensors", "..", ".", "", "s1\\u0000"}) {
    dir.write(kIndex, R"({"weight_map":{"a":")" + name + "\"}}");
    expect_refused(dir, R"("a": expected the name of a file in the same directory, got ")" + name + '"');
  }
  dir.write(kIndex, R"({"weight_map":{"a":1}})");
  expect_refused(dir, R"("a": expected the name of a file in the same directory, got 1)");
  for (const std::string text : {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{}})", "{", ""}) {
    dir.write(kIndex, text);
    expect_refused(dir, kIndex);
  }
}

TEST(CheckpointTest, RefusesAmbiguousDirectories) {
  const TempDir dir;
  dir.write("s1.safetensors", one_tensor("a"));
  dir.write("s2.safetensors", one_tensor("b"));
  expect_refused(dir, "2 safetensors files");
  dir.write("model.safetensors", one_tensor("a"));
  dir.write(kIndex, R"({"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}})");
  expect_refused(dir, "left over");
}

TEST(CheckpointTest, RefusesDirectoriesWithoutSafetensors) {
  const TempDir dir;
  expect_refused(dir, "no weights");
  dir.write("pytorch_model.bin", "x");
  expect_refused(dir, "pytorch_model.bin is of a format that is not read");
  dir.write("a.gguf", "x");
  expect_refused(dir, "a.gguf is of a format that is not read");
  EXPECT_EQ(Checkpoint::open(dir.path() + "/none").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace unspool
