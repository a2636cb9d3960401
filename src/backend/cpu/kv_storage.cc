#include "backend/cpu/kv_storage.h"

#include <algorithm>
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
namespace {

// Of a group. Keys and values are read at the memory's full speed in runs of 64 KB and more (32 GB/s where single
// blocks of 4 KB, in any order, give 22): 256 tokens at a head dimension of 64 in bf16.
constexpr int64_t kGroupTokens = 256;

}  // namespace

KvStorage::KvStorage(const KvCacheShape& shape) : KvCache(shape), stored_(stored_as(shape.dtype)) {
  padded_dim_ = round_up_to_panel(shape.head_dim);
  k_bytes_ = shape.block_size * shape.head_dim * dtype_size(shape.dtype);
  head_bytes_ = k_bytes_ + shape.block_size * padded_dim_ * dtype_size(shape.dtype);
  group_blocks_ = std::max<int64_t>(1, kGroupTokens / shape.block_size);
  group_bytes_ = group_blocks_ * shape.block_bytes();
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
  const int64_t groups = (shape_.blocks + group_blocks_ - 1) / group_blocks_;
  UNSPOOL_ASSIGN(buffer_, Buffer::allocate(static_cast<size_t>(groups * group_bytes_)));
  return {};
}

void KvStorage::zero_blocks(std::span<const int32_t> blocks) {
  for (const int32_t block : blocks)
    for (int64_t layer = 0; layer < shape_.layers; ++layer)
      for (int64_t h = 0; h < shape_.kv_heads; ++h)
        std::memset(head(block, layer, h), 0, static_cast<size_t>(head_bytes_));
}

void KvStorage::copy_block(int32_t from, int32_t to) {
  for (int64_t layer = 0; layer < shape_.layers; ++layer)
    for (int64_t h = 0; h < shape_.kv_heads; ++h)
      std::memcpy(head(to, layer, h), head(from, layer, h), static_cast<size_t>(head_bytes_));
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
