// Files: whole reads, and read-only mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/mapping.h"
#include "base/result.h"

namespace unspool {

Result<std::string> read_file(const std::string& path);
bool file_exists(const std::string& path);
// False, with errno, where not all of it could be written.
bool write_all(int fd, std::span<const std::byte> bytes);

// A file mapped read-only and kept open. Moves, does not copy. What is cut off the file meanwhile reads as zeros, and
// shows in has_changed().
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return mapping_.bytes(); }
  const std::string& path() const { return path_; }
  // Gives the resident pages of the mapping back to the operating system; they are read again when touched.
  void drop_pages() const { mapping_.drop_pages(); }
  // The file itself was written to since it was opened. One that was replaced by another of its name was not: the
  // mapping keeps what it has.
  bool has_changed() const;

 private:
  MappedFile() = default;
  std::string path_;
  Descriptor file_;
  Mapping mapping_;
  int64_t modified_ns_ = 0;
};

}  // namespace unspool
