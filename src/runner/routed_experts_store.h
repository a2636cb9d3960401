// Which experts every cached token went to, in the blocks of its keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "models/model_config.h"
#include "request/routed_experts.h"
#include "tensor/buffer.h"

namespace unspool {

class RoutedExpertsStore {
 public:
  static Result<std::unique_ptr<RoutedExpertsStore>> create(const RoutedExpertsShape& shape, int64_t blocks,
                                                            int64_t block_size);

  const RoutedExpertsShape& shape() const { return shape_; }
  int64_t row_ids() const { return shape_.layers * shape_.top_k; }

  // Positions [start, start + tokens) of a sequence with those blocks: ids [tokens, row_ids()].
  void write(std::span<const int32_t> block_table, int start, int tokens, const uint16_t* ids);
  // Positions [first, last), rows of shape().row_bytes().
  void read(std::span<const int32_t> block_table, int first, int last, std::byte* out) const;
  void copy_block(int32_t from, int32_t to);

  // As KvCache: what was there is gone.
  void release() { buffer_.release(); }
  Status allocate();
  size_t resident_bytes() const { return buffer_.resident_bytes(); }

 private:
  RoutedExpertsStore(const RoutedExpertsShape& shape, int64_t blocks, int64_t block_size)
      : shape_(shape), blocks_(blocks), block_size_(block_size) {}
  size_t offset(std::span<const int32_t> block_table, int position) const;

  RoutedExpertsShape shape_;
  int64_t blocks_, block_size_;
  Buffer buffer_;  // [blocks, block_size, layers, top_k]; a step writes what is read later, so nothing is zeroed
};

// Of a model with experts.
RoutedExpertsShape routed_experts_shape(const ModelConfig& config);

}  // namespace unspool
