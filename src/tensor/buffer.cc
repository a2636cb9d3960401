#include "tensor/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace unspool {

Result<Buffer> Buffer::allocate(size_t size_bytes) {
  Buffer buffer;
  if (size_bytes == 0) return buffer;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (size_bytes > std::numeric_limits<size_t>::max() - kHugePage - page) {
    return internal_error(fmt::format("cannot allocate {} bytes: more than the address space holds", size_bytes));
  }
  const size_t length = (size_bytes + page - 1) / page * page;
  // The kernel places a mapping on a page boundary only: ask for the alignment on top and give back what lies around
  // it.
  const size_t alignment = length < kHugePage ? page : kHugePage;
  const size_t reserved = length + alignment - page;
  void* base = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return internal_error(fmt::format("cannot allocate {} bytes: {}", size_bytes, std::strerror(errno)));
  }
  const uintptr_t start = reinterpret_cast<uintptr_t>(base);
  const uintptr_t aligned = (start + alignment - 1) / alignment * alignment;
  const size_t before = aligned - start;
  const size_t after = reserved - length - before;
  if (before > 0) ::munmap(base, before);
  if (after > 0) ::munmap(reinterpret_cast<void*>(aligned + length), after);

  buffer.data_ = reinterpret_cast<void*>(aligned);
  buffer.size_ = size_bytes;
  buffer.mapped_ = length;
  // Advice: a kernel without huge pages refuses it, and everything works on small ones.
  ::madvise(buffer.data_, length, MADV_HUGEPAGE);
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

size_t Buffer::resident_bytes() const {
  constexpr size_t kPagesAtOnce = 4096;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  unsigned char in_memory[kPagesAtOnce];
  size_t resident = 0;
  for (size_t at = 0; at < mapped_; at += kPagesAtOnce * page) {
    const size_t length = std::min(mapped_ - at, kPagesAtOnce * page);
    if (::mincore(static_cast<std::byte*>(data_) + at, length, in_memory) != 0) return mapped_;  // cannot tell
    for (size_t i = 0; i < length / page; ++i) resident += (in_memory[i] & 1) != 0 ? page : 0;
  }
  return resident;
}

void Buffer::release() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
  data_ = nullptr;
  size_ = 0;
  mapped_ = 0;
}

}  // namespace unspool
