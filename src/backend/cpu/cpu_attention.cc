// Attention on the CPU: one item a (run of query rows, kv head), any thread takes any item (docs/numerics.md, section
// 3).
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kv_storage.h"
#include "backend/cpu/round_up.h"
#include "base/check.h"

namespace unspool::cpu {
namespace {

// Rows (tokens x query heads of a group) of an item: 8 register tiles of 6. More would share each read of K and V among
// more rows, but scores, probabilities and sums of 48 rows by 128 keys (3 x 24 KB) already fill a good part of the
// core's cache.
constexpr int kItemRows = 48;

// What AttentionItem::scratch must hold; the kernel carves the same pieces.
int64_t attention_scratch_floats(int64_t rows, int64_t head_dim) {
  const int64_t dim = round_up_to_panel(head_dim), wide = std::max<int64_t>(dim, kKeyBlock);
  return rows * (3 * dim + 2 * kKeyBlock + wide) + 4 * round_up_to_panel(rows) + kKeyBlock * dim;
}

struct Item {
  int sequence;
  int first_token, tokens;
  int kv_head;
};

}  // namespace

void CpuBackend::rotate_and_store(const AttentionArgs& args, KvStorage& cache) {
  const KvCacheShape& shape = cache.shape();
  const int64_t dim = shape.head_dim, half = dim / 2, heads = args.heads, kv_heads = shape.kv_heads;
  const int64_t stride = (heads + 2 * kv_heads) * dim;
  int64_t rows = 0;
  for (const auto& s : args.sequences) rows += s.tokens;
  std::vector<int32_t> owner(static_cast<size_t>(rows));
  for (size_t i = 0; i < args.sequences.size(); ++i)
    for (int t = 0; t < args.sequences[i].tokens; ++t)
      owner[static_cast<size_t>(args.sequences[i].first_row + t)] = static_cast<int32_t>(i);

  std::vector<uint8_t> bad(static_cast<size_t>(rows), 0);  // a row has one writer, a sequence may have several
  for_rows(rows, [&](int64_t row) {
    const AttentionSequence& sequence = args.sequences[static_cast<size_t>(owner[static_cast<size_t>(row)])];
    const int64_t position = sequence.first_position + row - sequence.first_row;
    float* q = args.qkv + row * stride;
    float* k = q + heads * dim;
    const float* v = k + kv_heads * dim;
    const float *cos = args.cos + row * half, *sin = args.sin + row * half;
    for (int64_t h = 0; h < heads; ++h) {
      if (args.q_norm != nullptr) kernels_.rms_norm(q + h * dim, args.q_norm, args.norm_eps, dim, q + h * dim);
      kernels_.rotate(q + h * dim, cos, sin, half);
    }
    const int32_t block = sequence.block_table[static_cast<size_t>(position / shape.block_size)];
    for (int64_t h = 0; h < kv_heads; ++h) {
      if (args.k_norm != nullptr) kernels_.rms_norm(k + h * dim, args.k_norm, args.norm_eps, dim, k + h * dim);
      kernels_.rotate(k + h * dim, cos, sin, half);
      if (!cache.store(cache.head(block, args.layer, h), position % shape.block_size, k + h * dim, v + h * dim))
        bad[static_cast<size_t>(row)] = 1;
    }
  });
  for (size_t row = 0; row < bad.size(); ++row)
    if (bad[row] != 0) args.non_finite[static_cast<size_t>(owner[row])] = 1;
}

void CpuBackend::reserve_attention_scratch(int64_t floats, int64_t pointers) {
  for (auto& scratch : scratch_) {
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    if (scratch.floats.size_bytes() < bytes) {
      auto buffer = Buffer::allocate(bytes);
      UNSPOOL_CHECK(buffer.ok(), "{} bytes of attention scratch", bytes);
      scratch.floats = std::move(*buffer);
    }
    if (static_cast<int64_t>(scratch.pointers.size()) < pointers)
      scratch.pointers.resize(static_cast<size_t>(pointers));
  }
}

void CpuBackend::attention(const AttentionArgs& args, KvCache& cache, MatmulPrecision precision, float* y) {
  auto& storage = static_cast<KvStorage&>(cache);
  const KvCacheShape& shape = storage.shape();
  rotate_and_store(args, storage);

  const int group = args.heads / static_cast<int>(shape.kv_heads);
  const int tokens_an_item = std::max(1, kItemRows / group);
  std::vector<Item> items;
  int64_t blocks = 0;
  for (size_t i = 0; i < args.sequences.size(); ++i) {
    const AttentionSequence& s = args.sequences[i];
    blocks = std::max<int64_t>(blocks, (s.first_position + s.tokens + shape.block_size - 1) / shape.block_size);
    // The last tokens see the most keys: dear items first, so that no thread is left with one at the end.
    for (int first = (s.tokens - 1) / tokens_an_item * tokens_an_item; first >= 0; first -= tokens_an_item)
      for (int h = 0; h < shape.kv_heads; ++h)
        items.push_back({static_cast<int>(i), first, std::min(tokens_an_item, s.tokens - first), h});
  }
  reserve_attention_scratch(attention_scratch_floats(std::max(kItemRows, group), shape.head_dim), blocks);

  const int64_t dim = shape.head_dim, q_stride = (args.heads + 2 * shape.kv_heads) * dim, y_stride = args.heads * dim;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  pool_.parallel_for(static_cast<int64_t>(items.size()), [&](int64_t index, int thread) {
    const Item& item = items[static_cast<size_t>(index)];
    const AttentionSequence& s = args.sequences[static_cast<size_t>(item.sequence)];
    Scratch& scratch = scratch_[static_cast<size_t>(thread)];
    const int64_t length = s.first_position + item.first_token + item.tokens;
    for (int64_t b = 0; b * shape.block_size < length; ++b)
      scratch.pointers[static_cast<size_t>(b)] =
          storage.head(s.block_table[static_cast<size_t>(b)], args.layer, item.kv_head);
    const int64_t row = s.first_row + item.first_token, column = static_cast<int64_t>(item.kv_head) * group * dim;
    kernels_.attention({.q = args.qkv + row * q_stride + column,
                        .q_stride = q_stride,
                        .tokens = item.tokens,
                        .group = group,
                        .first_position = s.first_position + item.first_token,
                        .blocks = scratch.pointers.data(),
                        .v_offset_bytes = storage.v_offset_bytes(),
                        .block_size = static_cast<int>(shape.block_size),
                        .head_dim = static_cast<int>(dim),
                        .scale = scale,
                        .stored = storage.stored(),
                        .split_inputs = precision == MatmulPrecision::kBf16x2,
                        .out = y + row * y_stride + column,
                        .out_stride = y_stride,
                        .scratch = scratch.floats.as<float>()});
  });
}

}  // namespace unspool::cpu
