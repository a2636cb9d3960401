#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace unspool {
namespace {

TEST(Files, AreReadWhole) {
  const std::string path = ::testing::TempDir() + "file_test";
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{200001}}) {
    const std::string text(size, 'x');
    std::ofstream(path, std::ios::binary) << text;
    const auto read = read_file(path);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, text);
    EXPECT_EQ(MappedFile::open(path)->bytes().size(), size);
  }
  EXPECT_FALSE(read_file("/proc/self/status")->empty());  // has no size
}

TEST(Files, WhatIsNoFileIsRefusedAtOnce) {
  const std::string pipe = ::testing::TempDir() + "file_test.pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/dev/null"), ::testing::TempDir()}) {
    EXPECT_FALSE(read_file(path).ok()) << path;
    EXPECT_FALSE(MappedFile::open(path).ok()) << path;
  }
  unlink(pipe.c_str());
  EXPECT_EQ(read_file(::testing::TempDir() + "no_such_file").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace unspool
