#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

// As a checkpoint that is written in place while it is read.
TEST(MappedFile, WhatIsCutShortReadsAsZeros) {
  const std::string path = ::testing::TempDir() + "file_test.cut",
                    other_path = ::testing::TempDir() + "file_test.other";
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (const std::string& one : {path, other_path}) std::ofstream(one, std::ios::binary) << std::string(4 * page, 'x');
  const auto file = MappedFile::open(path), other = MappedFile::open(other_path);
  ASSERT_TRUE(file.ok() && other.ok());
  EXPECT_FALSE(file->has_changed());
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(page)), 0);
  const auto count = [](const MappedFile& mapped, char wanted) {
    const auto bytes = mapped.bytes();
    return static_cast<size_t>(std::count(bytes.begin(), bytes.end(), static_cast<std::byte>(wanted)));
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back([&] { EXPECT_EQ(file->bytes().back(), std::byte{0}); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(count(*file, '\0'), 4 * page);
  // Whole again, it is still not what was mapped.
  std::ofstream(path, std::ios::binary) << std::string(4 * page, 'x');
  EXPECT_TRUE(file->has_changed());
  EXPECT_EQ(count(*other, 'x'), 4 * page);
  EXPECT_FALSE(other->has_changed());
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
