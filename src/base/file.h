// Files: whole reads, and read-only mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/mapping_guard.h"
#include "base/result.h"

namespace unspool {

Result<std::string> read_file(const std::string& path);
bool file_exists(const std::string& path);

// A file mapped read-only and kept open. Moves, does not copy. What is cut off the file meanwhile reads as zeros, and
// shows in has_changed().
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Gives the resident pages of the mapping back to the operating system; they are read again when touched.
  void drop_pages() const;
  // The file itself was written to since it was opened. One that was replaced by another of its name was not: the
  // mapping keeps what it has.
  bool has_changed() const;

 private:
  MappedFile() = default;
  std::string path_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
  MappingGuard guard_;
};

}  // namespace unspool
