#include "runner/routed_experts_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace unspool {

Result<std::unique_ptr<RoutedExpertsStore>> RoutedExpertsStore::create(const RoutedExpertsShape& shape, int64_t blocks,
                                                                       int64_t block_size) {
  std::unique_ptr<RoutedExpertsStore> store(new RoutedExpertsStore(shape, blocks, block_size));
  UNSPOOL_TRY(store->allocate());
  return store;
}

Status RoutedExpertsStore::allocate() {
  UNSPOOL_ASSIGN(buffer_, Buffer::allocate(static_cast<size_t>(blocks_ * block_size_) * shape_.row_bytes()));
  return {};
}

size_t RoutedExpertsStore::offset(std::span<const int32_t> block_table, int position) const {
  const auto index = static_cast<size_t>(position / block_size_);
  UNSPOOL_CHECK(index < block_table.size(), "position {} of {} blocks", position, block_table.size());
  return static_cast<size_t>(block_table[index] * block_size_ + position % block_size_) * shape_.row_bytes();
}

void RoutedExpertsStore::write(std::span<const int32_t> block_table, int start, int tokens, const uint16_t* ids) {
  for (int t = 0; t < tokens; ++t, ids += row_ids()) {
    std::byte* row = buffer_.as<std::byte>() + offset(block_table, start + t);
    if (shape_.id_bytes == 2)
      std::memcpy(row, ids, shape_.row_bytes());
    else
      std::transform(ids, ids + row_ids(), row, [](uint16_t id) { return static_cast<std::byte>(id); });
  }
}

void RoutedExpertsStore::read(std::span<const int32_t> block_table, int first, int last, std::byte* out) const {
  for (int position = first; position < last; ++position, out += shape_.row_bytes())
    std::memcpy(out, buffer_.as<std::byte>() + offset(block_table, position), shape_.row_bytes());
}

void RoutedExpertsStore::copy_block(int32_t from, int32_t to) {
  const size_t size = static_cast<size_t>(block_size_) * shape_.row_bytes();
  auto* base = buffer_.as<std::byte>();
  std::memcpy(base + static_cast<size_t>(to) * size, base + static_cast<size_t>(from) * size, size);
}

RoutedExpertsShape routed_experts_shape(const ModelConfig& config) {
  constexpr int64_t kLastByte = 256;
  return {.layers = config.num_hidden_layers,
          .top_k = config.moe.top_k,
          .id_bytes = config.moe.num_experts <= kLastByte ? 1 : 2};
}

}  // namespace unspool
