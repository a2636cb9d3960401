#include "transfer/growing_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace unspool {
namespace {

TEST(GrowingMemory, GrowsAndNeverShrinks) {
  auto memory = GrowingMemory::create();
  ASSERT_TRUE(memory.ok());
  ASSERT_TRUE(memory->grow(4096).ok());
  ASSERT_EQ(::pwrite(memory->fd(), "abc", 3, 0), 3);
  ASSERT_TRUE(memory->grow(1 << 20).ok());
  EXPECT_EQ(memory->bytes()[2], std::byte{'c'});
  EXPECT_EQ(memory->bytes().size(), size_t{1} << 20);
  EXPECT_NE(::ftruncate(memory->fd(), 0), 0);
}

TEST(GrowingMemory, PagesGoBack) {
  auto memory = GrowingMemory::create();
  memory->drop_pages();  // of nothing
  ASSERT_TRUE(memory->grow(1 << 20).ok());
  ASSERT_EQ(::pwrite(memory->fd(), "abc", 3, 4096), 3);
  struct stat info{};
  ASSERT_EQ(::fstat(memory->fd(), &info), 0);
  EXPECT_GT(info.st_blocks, 0);
  memory->drop_pages();
  ASSERT_EQ(::fstat(memory->fd(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
  EXPECT_EQ(memory->bytes()[4096], std::byte{0});
  ASSERT_EQ(::pwrite(memory->fd(), "def", 3, 4096), 3);
  EXPECT_EQ(memory->bytes()[4096], std::byte{'d'});
}

}  // namespace
}  // namespace unspool
