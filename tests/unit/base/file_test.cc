#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <vector>

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

TEST(Files, WhatIsCutOffAMappedFileReadsAsZeros) {
  const std::string path = ::testing::TempDir() + "file_test.cut";
  constexpr size_t kSize = 1 << 20;
  std::ofstream(path, std::ios::binary) << std::string(kSize, 'x');
  auto opened = MappedFile::open(path);
  auto whole = MappedFile::open(path);
  ASSERT_TRUE(opened.ok() && whole.ok());
  const MappedFile file = std::move(opened).value();
  EXPECT_EQ(file.bytes()[kSize - 1], std::byte{'x'});
  EXPECT_FALSE(file.has_changed());
  ASSERT_EQ(truncate(path.c_str(), kSize / 2), 0);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] { EXPECT_EQ(file.bytes()[kSize - 1], std::byte{0}); });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(file.has_changed());
  // Put back as it was, the file is what it was; the mapping is not.
  ASSERT_EQ(truncate(path.c_str(), kSize), 0);
  EXPECT_EQ(file.bytes()[0], std::byte{0});
  EXPECT_TRUE(file.has_changed());
  EXPECT_EQ(whole->bytes()[0], std::byte{'x'});  // a fault touches its own mapping alone
}

TEST(MappingGuardDeathTest, OtherFaultsEndTheProcess) {
  const std::string path = ::testing::TempDir() + "file_test.unguarded";
  std::ofstream(path, std::ios::binary) << std::string(8192, 'x');
  const auto guarded = MappedFile::open(path);  // the handler is there
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const auto* data = static_cast<const volatile char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_DEATH(static_cast<void>(data[4096]), "");
  EXPECT_EXIT(raise(SIGBUS), [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
  close(fd);
}

}  // namespace
}  // namespace unspool
