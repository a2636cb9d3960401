// Keys and values in blocks, and blocks in groups: [group][layer][kv head][block of the group][K, then V]. K of a block
// is [step over head_dim][key], V is [step over keys][head_dim rounded up to 16], steps being pairs for bf16: both are
// right sides of products as they lie. All layers of a group lie together, so that what is touched of the pool stays
// dense; the blocks of a group lie side by side for one head, so that a sequence whose blocks follow each other is read
// in long runs.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/kernel_table.h"
#include "tensor/buffer.h"

namespace unspool::cpu {

class KvStorage final : public KvCache {
 public:
  static Result<std::unique_ptr<KvStorage>> create(const KvCacheShape& shape);

  void zero_blocks(std::span<const int32_t> blocks) override;
  void copy_block(int32_t from, int32_t to) override;
  void release() override { buffer_.release(); }
  Status restore() override;
  bool is_released() const override { return buffer_.empty(); }
  size_t resident_bytes() const override { return buffer_.resident_bytes(); }

  Stored stored() const { return stored_; }
  int64_t v_offset_bytes() const { return k_bytes_; }
  unsigned char* head(int32_t block, int64_t layer, int64_t kv_head) {
    const int64_t in_group = (layer * shape_.kv_heads + kv_head) * group_blocks_ + block % group_blocks_;
    return buffer_.as<unsigned char>() + block / group_blocks_ * group_bytes_ + in_group * head_bytes_;
  }
  // Stores one token's key and value of one kv head at `slot` of a block; false if a stored value is not finite. Tokens
  // side by side may be stored by two threads at once: nothing of a neighbour is written, not even as it was.
  bool store(const KernelTable& kernels, unsigned char* head, int64_t slot, const float* k, const float* v) const;

 private:
  explicit KvStorage(const KvCacheShape& shape);
  Buffer buffer_;
  Stored stored_;
  int64_t padded_dim_, k_bytes_, head_bytes_, group_blocks_, group_bytes_;
};

}  // namespace unspool::cpu
