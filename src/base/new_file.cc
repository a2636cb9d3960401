#include "base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/ids.h"

namespace unspool {

Error NewFile::error(const char* what) const {
  return internal_error(std::string(what) + " " + path_ + ": " + std::strerror(errno));
}

Result<NewFile> NewFile::create(std::string path) {
  NewFile file;
  file.path_ = std::move(path);
  std::string temporary = file.path_ + "." + random_hex(8) + ".tmp";
  file.file_ = Descriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.file_.is_open()) return file.error("cannot create");
  file.temporary_path_ = std::move(temporary);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept {
  *this = std::move(other);
}

NewFile& NewFile::operator=(NewFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_path_, other.temporary_path_);
  std::swap(file_, other.file_);
  return *this;
}

NewFile::~NewFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Status NewFile::append(std::span<const std::byte> bytes) {
  return write_all(file_.get(), bytes) ? Status() : error("cannot write");
}

Status NewFile::close() {
  // Before it has its name: else a power cut could leave the name with nothing behind it.
  if (::fsync(file_.get()) != 0 && errno != EINVAL)
    return error("cannot write");  // EINVAL: nothing there can be synced
  if (::close(file_.release()) != 0) return error("cannot close");
  return {};
}

Status NewFile::move_into_place() {
  if (std::rename(temporary_path_.c_str(), path_.c_str()) != 0) return error("cannot replace");
  temporary_path_.clear();
  return {};
}

}  // namespace unspool
