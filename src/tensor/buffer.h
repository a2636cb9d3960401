// Owned memory for weights, caches and scratch, taken from and given back to the operating system directly.
#pragma once

#include <cstddef>
#include <utility>

#include "base/result.h"

namespace unspool {

// Anonymous pages with huge pages asked for: on the boundary of one where the buffer is as large, else wherever the
// kernel puts them. That is side by side, so that small buffers made one after the other, before any is touched, lie in
// huge pages together; apart, each would be read through small ones. The kernel zeroes each page when it is first
// touched, so a large buffer costs only what is used of it. Never from malloc, which may keep what is freed: sleep must
// return memory.
class Buffer {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  Buffer() = default;
  // An error where the kernel has no room; size 0 gives an empty buffer.
  static Result<Buffer> allocate(size_t size_bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { release(); }

  // Unmaps the memory; the buffer is empty afterwards and every pointer into it is dead.
  void release();

  bool empty() const { return data_ == nullptr; }
  size_t size_bytes() const { return size_; }
  size_t resident_bytes() const;  // of the pages that were touched
  void* data() { return data_; }
  const void* data() const { return data_; }
  template <class T>
  T* as() {
    return static_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;    // as asked for
  size_t mapped_ = 0;  // what munmap gives back: size_ rounded up to whole pages
};

}  // namespace unspool
