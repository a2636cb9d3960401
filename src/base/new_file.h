// A file that is there whole, or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace unspool {

// Written beside its path under a name of its own, and moved there at the end: whoever reads meanwhile finds what was
// there before. What is not moved goes with the object.
class NewFile {
 public:
  static Result<NewFile> create(std::string path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&& other) noexcept;
  ~NewFile();

  Status append(std::span<const std::byte> bytes);
  // On the disk, and the descriptor free.
  Status close();
  // After close(). In place of what had the path.
  Status move_into_place();

 private:
  NewFile() = default;
  Error error(const char* what) const;

  std::string path_;
  std::string temporary_path_;  // empty once there is nothing to remove
  Descriptor file_;
};

}  // namespace unspool
