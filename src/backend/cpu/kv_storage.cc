#include "backend/cpu/kv_storage.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/round_up.h"
#include "base/check.h"
#include "tensor/convert.h"

namespace unspool {

int64_t KvCacheShape::block_bytes() const {
  const int64_t padded_dim = cpu::round_up_to_panel(head_dim);
  return layers * kv_heads * block_size * (head_dim + padded_dim) * dtype_size(dtype);
}

namespace cpu {

KvStorage::KvStorage(const KvCacheShape& shape) : KvCache(shape), stored_(stored_as(shape.dtype)) {
  padded_dim_ = round_up_to_panel(shape.head_dim);
  k_bytes_ = shape.block_size * shape.head_dim * dtype_size(shape.dtype);
  v_bytes_ = shape.block_size * padded_dim_ * dtype_size(shape.dtype);
  block_bytes_ = shape.block_bytes();
}

Result<std::unique_ptr<KvStorage>> KvStorage::create(const KvCacheShape& shape) {
  UNSPOOL_CHECK(shape.head_dim % 2 == 0 && shape.head_dim <= kMaxHeadDim && shape.block_size >= 8 &&
                    kKeyBlock % shape.block_size == 0,
                "head_dim {}, block_size {}", shape.head_dim, shape.block_size);
  std::unique_ptr<KvStorage> storage(new KvStorage(shape));
  UNSPOOL_TRY(storage->restore());
  return storage;
}

Status KvStorage::restore() {
  UNSPOOL_ASSIGN(buffer_, Buffer::allocate(static_cast<size_t>(shape_.blocks * block_bytes_)));
  return {};
}

void KvStorage::zero_blocks(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks)
    std::memset(buffer_.as<unsigned char>() + block * block_bytes_, 0, static_cast<size_t>(block_bytes_));
}

void KvStorage::copy_block(int32_t from, int32_t to) {
  unsigned char* base = buffer_.as<unsigned char>();
  std::memcpy(base + to * block_bytes_, base + from * block_bytes_, static_cast<size_t>(block_bytes_));
}

bool KvStorage::store(const KernelTable& kernels, unsigned char* head, int64_t slot, const float* k,
                      const float* v) const {
  const int64_t dim = shape_.head_dim, size = shape_.block_size;
  uint32_t bad = 0;
  if (stored_ == Stored::kF32) {
    auto* keys = reinterpret_cast<float*>(head);
    auto* values = reinterpret_cast<float*>(head + k_bytes_);
    for (int64_t d = 0; d < dim; ++d) {
      bad |= !std::isfinite(k[d]) | !std::isfinite(v[d]);
      keys[d * size + slot] = k[d];
      values[slot * padded_dim_ + d] = v[d];
    }
    return bad == 0;
  }
  auto* keys = reinterpret_cast<uint16_t*>(head);
  auto* values = reinterpret_cast<uint16_t*>(head + k_bytes_);
  uint16_t key[kMaxHeadDim], value[kMaxHeadDim];
  const auto narrow = stored_ == Stored::kBf16 ? kernels.to_bf16 : kernels.to_f16;
  narrow(k, dim, key);
  narrow(v, dim, value);
  const uint16_t infinity = stored_ == Stored::kBf16 ? 0x7f80 : 0x7c00;
  for (int64_t d = 0; d < dim; ++d)
    bad |= (key[d] & infinity) == infinity ? 1u : (value[d] & infinity) == infinity ? 1u : 0u;
  if (stored_ == Stored::kBf16) {
    for (int64_t d = 0; d < dim; d += 2) std::memcpy(keys + (d / 2 * size + slot) * 2, key + d, 2 * sizeof *key);
    for (int64_t d = 0; d < dim; ++d) values[(slot / 2 * padded_dim_ + d) * 2 + slot % 2] = value[d];
  } else {
    for (int64_t d = 0; d < dim; ++d) keys[d * size + slot] = key[d];
    std::memcpy(values + slot * padded_dim_, value, static_cast<size_t>(dim) * sizeof *value);
  }
  return bad == 0;
}

}  // namespace cpu
}  // namespace unspool
