// What is written is read back, in any number of shards; and what fails leaves the directory as it was.
#include "weights/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <set>

#include "base/file.h"
#include "weights/checkpoint.h"
#include "weights_test_util.h"

namespace unspool {
namespace {

const std::vector<TensorToWrite> kTensors = {{"a", DType::kBFloat16, Shape{2, 3}},
                                             {"b.weight", DType::kFloat32, Shape{5}},
                                             {"c \"quoted\"", DType::kFloat16, Shape{1, 1, 7}}};

std::string bytes_of(size_t index) {
  std::string bytes;
  for (size_t i = 0; i < kTensors[index].size_bytes(); ++i) bytes += static_cast<char>(17 * index + i);
  return bytes;
}

// In pieces of five bytes.
void source(size_t index, const TensorSink& sink) {
  const std::string bytes = bytes_of(index);
  for (size_t at = 0; at < bytes.size(); at += 5) sink(bytes.data() + at, std::min<size_t>(5, bytes.size() - at));
}

std::set<std::string> files_in(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

constexpr const char* kPattern = "model-rank-{rank}-part-{part}.safetensors";

TEST(CheckpointWriter, WhatIsWrittenIsReadBack) {
  const std::string index(kCheckpointIndex);
  const std::vector<std::pair<std::optional<size_t>, std::set<std::string>>> cases = {
      {std::nullopt, {"model-rank-0-part-0.safetensors", index}},
      {32, {"model-rank-0-part-0.safetensors", "model-rank-0-part-1.safetensors", index}},
      {1,
       {"model-rank-0-part-0.safetensors", "model-rank-0-part-1.safetensors", "model-rank-0-part-2.safetensors",
        index}},
  };
  for (const auto& [max_bytes, files] : cases) {
    const TempDir dir;
    const std::string to = dir.path() + "/new/directory";
    for (int time = 0; time < 2; ++time) {
      const Status status = write_checkpoint({to, kPattern, max_bytes}, kTensors, source);
      ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(files_in(to), files);
      const auto checkpoint = Checkpoint::open(to);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
      ASSERT_EQ(checkpoint->names().size(), kTensors.size());
      for (size_t i = 0; i < kTensors.size(); ++i) {
        const auto tensor = checkpoint->find(kTensors[i].name);
        ASSERT_TRUE(tensor.has_value());
        EXPECT_EQ(tensor->dtype, kTensors[i].dtype);
        EXPECT_EQ(tensor->shape, kTensors[i].shape);
        const std::string want = bytes_of(i);
        EXPECT_TRUE(std::equal(tensor->bytes.begin(), tensor->bytes.end(), std::as_bytes(std::span(want)).begin(),
                               std::as_bytes(std::span(want)).end()));
      }
    }
  }
}

TEST(CheckpointWriter, ReadersKeepWhatTheyHave) {
  const TempDir dir;
  ASSERT_TRUE(write_checkpoint({dir.path(), kPattern, {}}, kTensors, source).ok());
  const auto before = Checkpoint::open(dir.path());
  ASSERT_TRUE(write_checkpoint({dir.path(), kPattern, {}}, kTensors, [](size_t index, const TensorSink& sink) {
                const std::string zeros(kTensors[index].size_bytes(), '\0');
                sink(zeros.data(), zeros.size());
              }).ok());
  EXPECT_FALSE(before->changed_file());
  EXPECT_EQ(std::to_integer<char>(before->find("b.weight")->bytes[0]), 17);
}

TEST(CheckpointWriter, PatternsThatNameNoFileOfTheDirectory) {
  const TempDir dir;
  for (const char* pattern :
       {"", "x", "../m-{part}.safetensors", "/m.safetensors", "a/{part}.safetensors", ".{part}.safetensors", "{part",
        "part}.safetensors", "{0}-{part}.safetensors", "{part:05d}.safetensors", "{rank.__class__}.safetensors",
        "m-{part}.bin", "one.safetensors"}) {
    const Status status = write_checkpoint({dir.path(), pattern, 1}, kTensors, source);
    ASSERT_FALSE(status.ok()) << pattern;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(status.error().param, "pattern");
  }
  EXPECT_EQ(files_in(dir.path()), std::set<std::string>{});
  EXPECT_TRUE(write_checkpoint({dir.path(), "{{{rank}}}.safetensors", {}}, kTensors, source).ok());
  EXPECT_TRUE(file_exists(dir.path() + "/{0}.safetensors"));
}

TEST(CheckpointWriter, OtherWeightsAreNotMixedIn) {
  const TempDir dir;
  dir.write("model.safetensors", "another model");
  const Status status = write_checkpoint({dir.path(), kPattern, {}}, kTensors, source);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(files_in(dir.path()), std::set<std::string>{"model.safetensors"});
  dir.write("file", "");
  EXPECT_EQ(write_checkpoint({dir.path() + "/file", kPattern, {}}, kTensors, source).error().kind,
            ErrorKind::kInvalidArgument);
}

// A limit of the file size fails a write half-way, as a full disk does.
TEST(CheckpointWriter, WhatCannotBeWrittenLeavesWhatWasThere) {
  const TempDir dir;
  ASSERT_TRUE(write_checkpoint({dir.path(), kPattern, 32}, kTensors, source).ok());
  const auto before = files_in(dir.path());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{100, limit.rlim_max};
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_checkpoint({dir.path(), kPattern, 32}, kTensors, source);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInternal);
  EXPECT_EQ(files_in(dir.path()), before);
  EXPECT_TRUE(Checkpoint::open(dir.path()).ok());
}

}  // namespace
}  // namespace unspool
