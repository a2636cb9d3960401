#include "transfer/growing_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unspool {

Result<GrowingMemory> GrowingMemory::create() {
  GrowingMemory memory;
  memory.file_ = Descriptor(::memfd_create("unspool-gloo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Whoever has the descriptor may write it, but not take a page from under us.
  if (!memory.file_.is_open() || ::fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return internal_error(fmt::format("no memory to share: {}", std::strerror(errno)));
  }
  return memory;
}

Status GrowingMemory::grow(size_t size_bytes) {
  if (size_bytes <= size_) return {};
  if (::ftruncate(fd(), static_cast<off_t>(size_bytes)) != 0) {
    return internal_error(fmt::format("{} bytes of shared memory: {}", size_bytes, std::strerror(errno)));
  }
  void* const data = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd(), 0);
  if (data == MAP_FAILED) {
    return internal_error(fmt::format("{} bytes of shared memory: {}", size_bytes, std::strerror(errno)));
  }
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = static_cast<std::byte*>(data);
  size_ = size_bytes;
  return {};
}

void GrowingMemory::drop_pages() {
  if (size_ > 0) ::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_));
}

GrowingMemory::GrowingMemory(GrowingMemory&& other) noexcept {
  *this = std::move(other);
}

GrowingMemory& GrowingMemory::operator=(GrowingMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

GrowingMemory::~GrowingMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace unspool
