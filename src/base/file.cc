#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace unspool {
namespace {

Error file_error(const std::string& what, const std::string& path) {
  return {errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kInvalidArgument, what + " " + path + ": " + std::strerror(errno), {}};
}

int64_t modified_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return file_error("cannot open", path);
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad() || out.fail()) return file_error("cannot read", path);
  return std::move(out).str();
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd_ < 0) return file_error("cannot open", path);
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) return file_error("cannot stat", path);
  if (!S_ISREG(info.st_mode)) return invalid_argument("expected a regular file, got something else: " + path);
  file.size_ = static_cast<size_t>(info.st_size);
  file.modified_ns_ = modified_ns(info);
  if (file.size_ == 0) return file;  // mmap refuses an empty range
  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, file.fd_, 0);
  if (data == MAP_FAILED) return file_error("cannot map", path);
  file.data_ = static_cast<std::byte*>(data);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

bool MappedFile::has_changed() const {
  struct stat info {};
  return ::fstat(fd_, &info) != 0 || static_cast<size_t>(info.st_size) != size_ || modified_ns(info) != modified_ns_;
}

void MappedFile::drop_pages() const {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

}  // namespace unspool
