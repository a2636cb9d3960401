#include "runner/sleep_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace unspool {
namespace {

Error sleep_error(const std::string& directory, const std::string& what) {
  return internal_error(fmt::format("sleep directory {}: {}", directory, what));
}

Error system_error(const std::string& directory, const char* what) {
  return sleep_error(directory, fmt::format("{}: {}", what, std::strerror(errno)));
}

// A file without a name. Where the file system cannot make one, the name is removed before anything is written.
Descriptor open_unnamed(const std::string& directory) {
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.is_open() || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string path = directory + "/weights-XXXXXX";
  Descriptor named(::mkostemp(path.data(), O_CLOEXEC));
  if (named.is_open()) ::unlink(path.c_str());
  return named;
}

}  // namespace

std::string default_sleep_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::string(cache) + "/unspool";  // a relative one counts as unset
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "" : home) + "/.cache/unspool";
}

Status prepare_sleep_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return sleep_error(directory, "cannot create it: " + error.message());
  struct statfs info{};
  if (::statfs(directory.c_str(), &info) != 0) return system_error(directory, "cannot look at it");
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) {
    return sleep_error(directory,
                       "it lies in memory (tmpfs): weights written there would not free any; name a directory "
                       "on a disk with --sleep-directory, or keep them with --sleep-level1-backing memory");
  }
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return system_error(directory, "cannot write to it");
  return {};
}

Result<SleepFile> SleepFile::create(const std::string& directory, size_t size_bytes) {
  UNSPOOL_TRY(prepare_sleep_directory(directory));
  struct statfs info{};
  if (::statfs(directory.c_str(), &info) != 0) return system_error(directory, "cannot look at it");
  const size_t free_bytes = static_cast<size_t>(info.f_bavail) * static_cast<size_t>(info.f_bsize);
  if (free_bytes < size_bytes) {
    return sleep_error(directory, fmt::format("the weights need {} bytes, {} are free", size_bytes, free_bytes));
  }
  SleepFile file(directory, open_unnamed(directory));
  if (!file.file_.is_open()) return system_error(directory, "cannot create a file");
  // Taken now, so that another writer cannot take it half-way. A file system that cannot reserve is written to all the
  // same.
  if (size_bytes > 0 && ::fallocate(file.file_.get(), 0, 0, static_cast<off_t>(size_bytes)) != 0 &&
      errno != EOPNOTSUPP) {
    return system_error(directory, "cannot reserve space");
  }
  return file;
}

Status SleepFile::append(std::span<const std::byte> bytes) {
  return write_all(file_.get(), bytes) ? Status() : system_error(directory_, "cannot write");
}

Status SleepFile::read(size_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(directory_, "cannot read");
    if (got == 0) return sleep_error(directory_, "the file ends early");
    offset += static_cast<size_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace unspool
