#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"

namespace unspool {
namespace {

Error file_error(const std::string& what, const std::string& path) {
  return {errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kInvalidArgument,
          what + " " + path + ": " + std::strerror(errno),
          {}};
}

// A pipe or a device could keep its reader waiting, or reading, for ever: without O_NONBLOCK the open itself waits.
Result<Descriptor> open_regular_file(const std::string& path, struct stat& info) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return file_error("cannot open", path);
  if (::fstat(file.get(), &info) != 0) return file_error("cannot stat", path);
  if (!S_ISREG(info.st_mode)) return invalid_argument("expected a regular file, got something else: " + path);
  return file;
}

int64_t modified_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  struct stat info{};
  UNSPOOL_ASSIGN(const Descriptor file, open_regular_file(path, info));
  std::string text;
  // The size is a hint: that of a file of /proc is 0.
  size_t room = static_cast<size_t>(info.st_size) + 1;
  while (true) {
    const size_t size = text.size();
    text.resize(size + room);
    const ssize_t got = ::read(file.get(), text.data() + size, room);
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) return file_error("cannot read", path);
    room = 64 * 1024;
  }
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  struct stat info{};
  UNSPOOL_ASSIGN(Descriptor descriptor, open_regular_file(path, info));
  file.fd_ = descriptor.release();
  file.size_ = static_cast<size_t>(info.st_size);
  file.modified_ns_ = modified_ns(info);
  if (file.size_ == 0) return file;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) return file_error("cannot map", path);
  file.data_ = static_cast<std::byte*>(data);
  file.guard_ = MappingGuard(data, file.size_);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_ = {};
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

bool MappedFile::has_changed() const {
  struct stat info{};
  return guard_.faulted() || ::fstat(fd_, &info) != 0 || static_cast<size_t>(info.st_size) != size_ ||
         modified_ns(info) != modified_ns_;
}

void MappedFile::drop_pages() const {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

}  // namespace unspool
