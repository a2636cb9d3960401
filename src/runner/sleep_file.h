// Where weights that no checkpoint has wait while the engine sleeps: an unnamed file, which goes with the process
// however the process ends.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace unspool {

// $XDG_CACHE_HOME/unspool, or ~/.cache/unspool.
std::string default_sleep_directory();

// Makes the directory where it is missing. An error where it cannot be written to, or where it lies in memory (tmpfs),
// from which sleep would give nothing back.
Status prepare_sleep_directory(const std::string& directory);

class SleepFile {
 public:
  // Has `size_bytes` reserved on the disk; an error says what was missing.
  static Result<SleepFile> create(const std::string& directory, size_t size_bytes);

  Status append(std::span<const std::byte> bytes);
  // Any number of threads at once.
  Status read(size_t offset, std::span<std::byte> bytes) const;

 private:
  SleepFile(std::string directory, Descriptor file) : directory_(std::move(directory)), file_(std::move(file)) {}
  std::string directory_;
  Descriptor file_;
};

}  // namespace unspool
