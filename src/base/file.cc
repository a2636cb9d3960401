#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  struct stat info{};
  UNSPOOL_ASSIGN(file.file_, open_regular_file(path, info));
  file.modified_ns_ = modified_ns(info);
  auto mapped = Mapping::of(file.file_.get(), static_cast<size_t>(info.st_size));
  if (!mapped.ok()) return invalid_argument("cannot map " + path + ": " + mapped.error().message);
  file.mapping_ = std::move(mapped).value();
  return file;
}

bool MappedFile::has_changed() const {
  struct stat info{};
  return mapping_.faulted() || ::fstat(file_.get(), &info) != 0 ||
         static_cast<size_t>(info.st_size) != mapping_.size_bytes() || modified_ns(info) != modified_ns_;
}

}  // namespace unspool
