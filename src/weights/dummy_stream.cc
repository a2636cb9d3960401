#include "weights/dummy_stream.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tensor/cast.h"

namespace unspool {
namespace {

constexpr int64_t kPiece = 4096;

}  // namespace

// The finisher of SplitMix64 over the index: 24 bits of it are a float's.
float DummyStream::number(uint64_t index) {
  uint64_t bits = (index + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  bits ^= bits >> 31;
  const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;  // [0, 1)
  return (2.0f * unit - 1.0f) * 1e-3f;
}

Result<DummyStream> DummyStream::create(int64_t max_elements, DType dtype) {
  UNSPOOL_ASSIGN(Buffer buffer, Buffer::allocate(static_cast<size_t>(max_elements * dtype_size(dtype))));
  return DummyStream(std::move(buffer), dtype);
}

std::span<const std::byte> DummyStream::first(int64_t elements) const {
  const auto size = static_cast<size_t>(dtype_size(dtype_)), bytes = static_cast<size_t>(elements) * size;
  UNSPOOL_CHECK(bytes <= buffer_.size_bytes(), "{} elements of a stream of {} bytes", elements, buffer_.size_bytes());
  std::vector<float> piece;
  for (; made_ < elements; made_ += static_cast<int64_t>(piece.size())) {
    piece.resize(static_cast<size_t>(std::min(kPiece, elements - made_)));
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = number(static_cast<uint64_t>(made_) + i);
    cast_elements(piece.data(), DType::kFloat32, static_cast<int64_t>(piece.size()), dtype_,
                  buffer_.as<std::byte>() + static_cast<size_t>(made_) * size);
  }
  return {buffer_.as<std::byte>(), bytes};
}

void DummyStream::drop() const {
  if (made_ == 0) return;
  ::madvise(buffer_.data(), buffer_.size_bytes(), MADV_DONTNEED);
  made_ = 0;
}

}  // namespace unspool
