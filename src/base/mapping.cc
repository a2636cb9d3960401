#include "base/mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unspool {

Result<Mapping> Mapping::of(int fd, size_t size_bytes) {
  Mapping mapping;
  if (size_bytes == 0) return mapping;  // mmap refuses an empty range
  void* const data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return internal_error(std::strerror(errno));
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = size_bytes;
  mapping.guard_ = MappingGuard(data, size_bytes);
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept {
  *this = std::move(other);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

Mapping::~Mapping() {
  guard_ = {};  // before the range is somebody else's
  if (data_ != nullptr) ::munmap(data_, size_);
}

void Mapping::drop_pages() const {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_DONTNEED);
}

}  // namespace unspool
