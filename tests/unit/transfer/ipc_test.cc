// Segments of shared memory: whose they may be, how long they stay, and what happens when they shrink.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/file.h"
#include "base/ids.h"
#include "transfer/ipc_transport.h"

namespace unspool {
namespace {

// As a sender makes it.
class Segment {
 public:
  explicit Segment(size_t size_bytes, mode_t mode = 0600, std::string name = random_name()) : name_(std::move(name)) {
    file_ = Descriptor(shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, mode));
    EXPECT_TRUE(file_.is_open());
    EXPECT_EQ(fchmod(file_.get(), mode), 0);
    EXPECT_EQ(flock(file_.get(), LOCK_EX | LOCK_NB), 0);
    resize(size_bytes);
  }
  ~Segment() { shm_unlink(name_.c_str()); }
  static std::string random_name() { return "/unspool-" + random_hex() + random_hex(); }

  void write(size_t offset, const std::string& bytes) {
    EXPECT_EQ(pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  void resize(size_t size_bytes) { EXPECT_EQ(ftruncate(file_.get(), static_cast<off_t>(size_bytes)), 0); }
  void die() { file_ = Descriptor(); }
  bool has_name() const { return access(("/dev/shm" + name_).c_str(), F_OK) == 0; }
  // As if it had been made some time ago.
  void age() {
    const timespec times[] = {{0, UTIME_OMIT}, {time(nullptr) - 60, 0}};
    EXPECT_EQ(futimens(file_.get(), times), 0);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  Descriptor file_;
};

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SharedMemory, IsMappedOnceAndHasNoNameThen) {
  Segment segment(8192);
  segment.write(0, "first");
  SharedMemory memory;
  const auto first = memory.find_or_map(segment.name());
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(segment.has_name());
  EXPECT_EQ(text((*first)->bytes().first(5)), "first");
  segment.write(0, "again");
  const auto second = memory.find_or_map(segment.name().substr(1));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->bytes().data(), (*first)->bytes().data());
  EXPECT_EQ(text((*second)->bytes().first(5)), "again");
  segment.resize(16384);
  EXPECT_EQ((*memory.find_or_map(segment.name()))->bytes().size(), 16384u);
  memory.release_all();
  EXPECT_FALSE(memory.find_or_map(segment.name()).ok());
}

TEST(SharedMemory, ASecondSegmentOfOneNameIsAnother) {
  SharedMemory memory;
  Segment old(4096);
  old.write(0, "old");
  ASSERT_TRUE(memory.find_or_map(old.name()).ok());
  Segment next(4096, 0600, old.name());
  next.write(0, "new");
  EXPECT_EQ(text((*memory.find_or_map(next.name()))->bytes().first(3)), "new");
}

TEST(SharedMemory, OnlyOnesOwn) {
  SharedMemory memory;
  for (const mode_t mode : {0640, 0604, 0660, 0666, 0610}) {
    const Segment shared(4096, mode);
    const auto refused = memory.find_or_map(shared.name());
    ASSERT_FALSE(refused.ok()) << mode;
    EXPECT_NE(refused.error().message.find("expected mode 600"), std::string::npos) << refused.error().message;
    EXPECT_TRUE(shared.has_name());
  }
  for (const char* name : {"", "/", ".", "/..", "/../tmp/x", "/a/b", "//a", "/unspool-that-is-not-there"}) {
    const auto refused = memory.find_or_map(name);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "update_info.shm_name");
  }
  EXPECT_FALSE(memory.find_or_map(std::string(300, 'x')).ok());
  EXPECT_FALSE(memory.find_or_map(std::string("a\0b", 3)).ok());
  // A link, as another user may put it there, is not followed.
  const std::string link = "/dev/shm" + Segment::random_name();
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  EXPECT_FALSE(memory.find_or_map(link.substr(8)).ok());
  unlink(link.c_str());
}

TEST(SharedMemory, IsLetGoWithItsSender) {
  SharedMemory memory;
  Segment segment(4096);
  ASSERT_TRUE(memory.find_or_map(segment.name()).ok());
  memory.release_abandoned();
  EXPECT_FALSE(memory.empty());
  segment.die();
  memory.release_abandoned();
  EXPECT_TRUE(memory.empty());
}

TEST(SharedMemory, TheSweepTakesWhatNobodyHolds) {
  Segment held(4096), left(4096), young(4096), foreign(4096, 0600, "/other-" + random_hex());
  for (Segment* segment : {&held, &left, &foreign}) segment->age();
  for (Segment* segment : {&left, &young, &foreign}) segment->die();
  SharedMemory::sweep();
  EXPECT_TRUE(held.has_name());
  EXPECT_FALSE(left.has_name());
  EXPECT_TRUE(young.has_name());  // its sender may be about to lock it
  EXPECT_TRUE(foreign.has_name());
}

class IpcTransportTest : public testing::Test {
 protected:
  UpdateInfo two(const Segment& segment, std::optional<std::vector<int64_t>> offsets) {
    UpdateInfo update;
    update.tensors = {{"a", DType::kFloat32, {2}, std::nullopt}, {"b", DType::kBFloat16, {3}, std::nullopt}};
    update.shm_name = segment.name();
    update.offsets = std::move(offsets);
    return update;
  }
  Status receive(const UpdateInfo& update) {
    got_.clear();
    return transport_.receive(
        update,
        [this](size_t, std::span<const std::byte> bytes) {
          got_.push_back(text(bytes));
          if (after_each_) after_each_();
          return Status();
        },
        TransferLimit(10, interrupt_));
  }

  IpcTransport transport_;
  Interrupt interrupt_;
  std::vector<std::string> got_;
  std::function<void()> after_each_;
};

TEST_F(IpcTransportTest, TensorsLieWhereTheyAreSaidTo) {
  Segment segment(4096);
  segment.write(1001, "abcdef");
  segment.write(0, "12345678ABCDEF");
  ASSERT_TRUE(receive(two(segment, {{0, 1001}})).ok());
  EXPECT_EQ(got_, (std::vector<std::string>{"12345678", "abcdef"}));
  UpdateInfo packed = two(segment, std::nullopt);
  EXPECT_EQ(transport_.check(packed).error().param, "update_info.offsets");
  packed.packing.packed = true;
  ASSERT_TRUE(receive(packed).ok());
  EXPECT_EQ(got_, (std::vector<std::string>{"12345678", "ABCDEF"}));
  packed.packing.packed.reset();
  ASSERT_TRUE(transport_.init({.packing = {.packed = true}}, TransferLimit(1, interrupt_)).ok());
  EXPECT_FALSE(transport_.check(packed).ok());  // the init has let go of the segment, whose name is gone
}

TEST_F(IpcTransportTest, NothingOutsideTheSegment) {
  Segment segment(4096);
  for (const int64_t offset : {int64_t{4091}, int64_t{4096}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    const Status refused = transport_.check(two(segment, {{0, offset}}));
    ASSERT_FALSE(refused.ok()) << offset;
    EXPECT_EQ(refused.error().param, "update_info.offsets");
  }
  EXPECT_TRUE(transport_.check(two(segment, {{0, 4090}})).ok());
  segment.resize(0);
  EXPECT_FALSE(transport_.check(two(segment, {{0, 8}})).ok());
}

TEST_F(IpcTransportTest, ASegmentThatShrinksIsAnError) {
  Segment segment(1 << 20);
  const UpdateInfo update = two(segment, {{0, (1 << 20) - 6}});
  ASSERT_TRUE(transport_.check(update).ok());
  after_each_ = [&] { segment.resize(4096); };
  const Status cut = receive(update);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.error().message.find("cut short"), std::string::npos) << cut.error().message;
  EXPECT_EQ(got_.back(), std::string(6, '\0'));
  // Made longer again within one update, it is no less broken.
  segment.resize(1 << 20);
  bool first = true;
  after_each_ = [&] { segment.resize(std::exchange(first, false) ? 4096 : 1 << 20); };
  EXPECT_FALSE(receive(update).ok());
  after_each_ = nullptr;
  segment.resize(1 << 20);
  segment.write((1 << 20) - 6, "abcdef");
  ASSERT_TRUE(receive(update).ok());
  EXPECT_EQ(got_.back(), "abcdef");
}

TEST_F(IpcTransportTest, IsCutBetweenTensors) {
  Segment segment(4096);
  after_each_ = [&] { interrupt_.set({ErrorKind::kConflict, "enough", {}}); };
  const Status cut = receive(two(segment, {{0, 8}}));
  ASSERT_FALSE(cut.ok());
  EXPECT_EQ(cut.error().message, "enough");
  EXPECT_EQ(got_.size(), 1u);
}

TEST_F(IpcTransportTest, TendsWhatItHolds) {
  EXPECT_FALSE(transport_.tend(false));
  Segment segment(4096);
  ASSERT_TRUE(transport_.check(two(segment, {{0, 8}})).ok());
  EXPECT_TRUE(transport_.tend(false));
  segment.die();
  EXPECT_FALSE(transport_.tend(false));
}

// Of this process, in shared memory.
int64_t resident_shared_kib() {
  const std::string status = read_file("/proc/self/status").value();
  return std::stoll(status.substr(status.find("RssShmem:") + std::strlen("RssShmem:")));
}

TEST_F(IpcTransportTest, AsleepItsPagesAreTheSendersAlone) {
  constexpr int64_t kSize = 8 << 20;
  Segment segment(kSize);
  segment.write(kSize - 4, "last");
  UpdateInfo update = two(segment, {{0, kSize - 4}});
  update.tensors = {{"a", DType::kFloat32, {(kSize - 4) / 4}, std::nullopt}, {"b", DType::kFloat32, {1}, std::nullopt}};
  after_each_ = [] {};
  const int64_t before = resident_shared_kib();
  ASSERT_TRUE(receive(update).ok());
  EXPECT_GT(resident_shared_kib() - before, kSize / 1024 / 2);
  EXPECT_TRUE(transport_.tend(true));
  EXPECT_LT(resident_shared_kib() - before, kSize / 1024 / 16);
  ASSERT_TRUE(receive(update).ok());
  EXPECT_EQ(got_.back(), "last");
}

}  // namespace
}  // namespace unspool
