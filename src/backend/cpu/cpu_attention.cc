// Attention on the CPU: one item a (some query rows, kv head), any thread takes any item (docs/numerics.md, section 3).
// Rows of several sequences share an item where their block tables begin alike, so that the keys and values of a common
// prefix are read once for all of them.
#include <algorithm>
#include <limits>

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
// Where that makes fewer items than two a thread, one of which may be left alone at the end, items are halved: down to
// two register tiles, below which a read of K and V is no longer paid for by the products.
constexpr int kFewestItemRows = 12, kItemsAThread = 2;
// Where even that is too few, the keys of an item are shared out as well, in as many parts.
constexpr int64_t kPartsAThread = 6;

// What AttentionItem::scratch must hold; the kernel carves the same pieces.
int64_t attention_scratch_floats(int64_t rows, int64_t head_dim) {
  const int64_t dim = round_up_to_panel(head_dim), wide = std::max<int64_t>(dim, kKeyBlock);
  return rows * (3 * dim + 2 * kKeyBlock + wide) + 4 * round_up_to_panel(rows) + kKeyBlock * dim;
}

struct Run {
  int sequence;
  int first_token, tokens;
};
struct Group {
  int first_run, num_runs;
  int shared_blocks;  // of kKeyBlock keys
};

// The work of one kv head: runs of at most `tokens` tokens, in groups of as many.
struct Split {
  std::vector<Run> runs;
  std::vector<Group> groups;

  // Sequences that follow each other share a group where they have key blocks in common: all samples of a prompt do.
  // Not under a window, where common blocks are soon out of sight.
  void make(std::span<const AttentionSequence> sequences, int64_t block_size, bool windowed, int tokens) {
    runs.clear();
    groups.clear();
    int room = 0;  // tokens that the last group can still take
    for (int i = 0; i < static_cast<int>(sequences.size()); ++i) {
      const AttentionSequence& s = sequences[static_cast<size_t>(i)];
      if (s.tokens <= room) {
        Group& last = groups.back();
        const int shared =
            windowed ? 0 : common_blocks(sequences[static_cast<size_t>(runs.back().sequence)], s, block_size);
        if (last.num_runs == 1) last.shared_blocks = shared;
        // Whoever has less in common with the others than they have would make them read the rest on their own.
        if (shared > 0 && shared >= last.shared_blocks) {
          ++last.num_runs;
          runs.push_back({i, 0, s.tokens});
          room -= s.tokens;
          continue;
        }
      }
      // The last tokens see the most keys: dear items first, so that no thread is left with one at the end.
      for (int first = (s.tokens - 1) / tokens * tokens; first >= 0; first -= tokens) {
        groups.push_back({static_cast<int>(runs.size()), 1, 0});
        runs.push_back({i, first, std::min(tokens, s.tokens - first)});
      }
      room = s.tokens < tokens ? tokens - s.tokens : 0;
    }
  }

 private:
  // Leading key blocks in the same cache blocks, before either's first token.
  static int common_blocks(const AttentionSequence& a, const AttentionSequence& b, int64_t block_size) {
    const int64_t limit = std::min(a.first_position, b.first_position) / kKeyBlock;
    const auto end = a.block_table.begin() + limit * kKeyBlock / block_size;
    const auto differs = std::mismatch(a.block_table.begin(), end, b.block_table.begin()).first;
    return static_cast<int>((differs - a.block_table.begin()) * block_size / kKeyBlock);
  }
};

void reserve_floats(Buffer& buffer, int64_t floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  if (buffer.size_bytes() >= bytes) return;
  auto larger = Buffer::allocate(bytes);
  UNSPOOL_CHECK(larger.ok(), "{} bytes of attention scratch", bytes);
  buffer = std::move(*larger);
}

// Blocks of an item's keys.
struct Part {
  int64_t item, first, end;
};

// Where the i-th of `count` tasks lies, if `takers` who take turns are each to go through neighbours.
int64_t by_turns(int64_t i, int64_t count, int64_t takers) {
  const int64_t taker = i % takers;
  return taker * (count / takers) + std::min(taker, count % takers) + i / takers;
}

}  // namespace

struct CpuBackend::AttentionCall {
  const AttentionArgs& args;
  KvStorage& storage;
  MatmulPrecision precision;
  float* y;
  Split split = {};
  int64_t most_blocks = 0;  // of the cache, that a sequence has
};

void CpuBackend::rotate_and_store(const AttentionArgs& args, KvStorage& cache) {
  const KvCacheShape& shape = cache.shape();
  const int64_t dim = shape.head_dim, half = args.rotary_dim / 2, heads = args.heads, kv_heads = shape.kv_heads;
  UNSPOOL_CHECK(args.rotary_dim % 2 == 0 && args.rotary_dim <= dim, "{} of {} features rotated", args.rotary_dim, dim);
  const auto normalize = [&](const RmsNorm& norm, float* x) {
    kernels_.rms_norm(x, norm.weight.data(), norm.offset, norm.eps, static_cast<int64_t>(norm.weight.size()), x);
  };
  const auto of_all_heads = [&](const RmsNorm& norm) { return static_cast<int64_t>(norm.weight.size()) > dim; };
  const auto prepare = [&](float* x, const RmsNorm& norm, int64_t row) {
    if (norm.exists() && !of_all_heads(norm)) normalize(norm, x);
    if (args.cos != nullptr) kernels_.rotate(x, args.cos + row * half, args.sin + row * half, half);
  };
  const int64_t stride = (heads + 2 * kv_heads) * dim;
  int64_t rows = 0;
  for (const auto& s : args.sequences) rows += s.tokens;
  std::vector<int32_t> owner(static_cast<size_t>(rows));
  for (size_t i = 0; i < args.sequences.size(); ++i)
    std::fill_n(owner.begin() + args.sequences[i].first_row, args.sequences[i].tokens, static_cast<int32_t>(i));

  std::vector<uint8_t> bad(static_cast<size_t>(rows), 0);  // a row has one writer, a sequence may have several
  for_rows(rows, [&](int64_t row) {
    const AttentionSequence& sequence = args.sequences[static_cast<size_t>(owner[static_cast<size_t>(row)])];
    const int64_t position = sequence.first_position + row - sequence.first_row;
    float* q = args.qkv + row * stride;
    float* k = q + heads * dim;
    const float* v = k + kv_heads * dim;
    if (of_all_heads(args.q_norm)) normalize(args.q_norm, q);
    if (of_all_heads(args.k_norm)) normalize(args.k_norm, k);
    for (int64_t h = 0; h < heads; ++h) prepare(q + h * dim, args.q_norm, row);
    const int32_t block = sequence.block_table[static_cast<size_t>(position / shape.block_size)];
    for (int64_t h = 0; h < kv_heads; ++h) {
      prepare(k + h * dim, args.k_norm, row);
      if (!cache.store(kernels_, cache.head(block, args.layer, h), position % shape.block_size, k + h * dim,
                       v + h * dim))
        bad[static_cast<size_t>(row)] = 1;
    }
  });
  for (size_t row = 0; row < bad.size(); ++row)
    if (bad[row] != 0) args.non_finite[static_cast<size_t>(owner[row])] = 1;
}

namespace {

// The first key that a token at `position` sees, down to a whole block of kKeyBlock.
int64_t first_block_seen(int64_t position, int64_t window) {
  return window > 0 ? std::max<int64_t>(position - window + 1, 0) / kKeyBlock : 0;
}

}  // namespace

void CpuBackend::reserve_attention_scratch(int64_t floats, int64_t runs, int64_t pointers) {
  for (auto& scratch : scratch_) {
    reserve_floats(scratch.floats, floats);
    scratch.runs.resize(std::max(scratch.runs.size(), static_cast<size_t>(runs)));
    scratch.pointers.resize(std::max(scratch.pointers.size(), static_cast<size_t>(pointers)));
  }
}

// The item `index` of a split, with the cache blocks of the keys [first_key, end_key) alone (shared ones are found
// through the first run).
AttentionItem CpuBackend::attention_item(const AttentionCall& call, int64_t index, int thread, int64_t first_key,
                                         int64_t end_key) {
  const AttentionArgs& args = call.args;
  const KvCacheShape& shape = call.storage.shape();
  const Group& item = call.split.groups[static_cast<size_t>(index / shape.kv_heads)];
  const int group = args.heads / static_cast<int>(shape.kv_heads);
  const int64_t kv_head = index % shape.kv_heads, dim = shape.head_dim, column = kv_head * group * dim;
  const int64_t q_stride = (args.heads + 2 * shape.kv_heads) * dim, y_stride = args.heads * dim;
  Scratch& scratch = scratch_[static_cast<size_t>(thread)];
  for (int i = 0; i < item.num_runs; ++i) {
    const Run& run = call.split.runs[static_cast<size_t>(item.first_run) + static_cast<size_t>(i)];
    const AttentionSequence& s = args.sequences[static_cast<size_t>(run.sequence)];
    const void** pointers = scratch.pointers.data() + i * call.most_blocks;
    const int64_t end = std::min<int64_t>(s.first_position + run.first_token + run.tokens, end_key);
    const int64_t row = s.first_row + run.first_token;
    const int64_t seen = first_block_seen(s.first_position + run.first_token, args.window) * kKeyBlock;
    const int64_t begin = std::max(seen, i == 0 ? first_key : int64_t{item.shared_blocks} * kKeyBlock);
    for (int64_t b = begin / shape.block_size; b * shape.block_size < end; ++b)
      pointers[b] = call.storage.head(s.block_table[static_cast<size_t>(b)], args.layer, kv_head);
    scratch.runs[static_cast<size_t>(i)] = {.q = args.qkv + row * q_stride + column,
                                            .out = call.y + row * y_stride + column,
                                            .tokens = run.tokens,
                                            .first_position = s.first_position + run.first_token,
                                            .blocks = pointers};
  }
  return {.runs = scratch.runs.data(),
          .num_runs = item.num_runs,
          .shared_blocks = item.shared_blocks,
          .q_stride = q_stride,
          .out_stride = y_stride,
          .group = group,
          .v_offset_bytes = call.storage.v_offset_bytes(),
          .block_size = static_cast<int>(shape.block_size),
          .head_dim = static_cast<int>(dim),
          .scale = args.scale,
          .softcap = args.softcap,
          .window = args.window,
          .stored = call.storage.stored(),
          .split_inputs = call.precision == MatmulPrecision::kBf16x2,
          .scratch = scratch.floats.as<float>()};
}

void CpuBackend::attention(const AttentionArgs& args, KvCache& cache, MatmulPrecision precision, float* y) {
  auto& storage = static_cast<KvStorage&>(cache);
  const KvCacheShape& shape = storage.shape();
  rotate_and_store(args, storage);

  const int group = args.heads / static_cast<int>(shape.kv_heads);
  const int64_t wanted_items = int64_t{kItemsAThread} * pool_.size();
  AttentionCall call{args, storage, precision, y};
  int64_t items = 0;
  for (int rows = kItemRows;; rows /= 2) {
    call.split.make(args.sequences, shape.block_size, args.window > 0, std::max(1, rows / group));
    items = static_cast<int64_t>(call.split.groups.size()) * shape.kv_heads;
    if (items >= wanted_items || rows / 2 < kFewestItemRows) break;
  }
  int64_t most_runs = 0, most_keys = 0;
  for (const auto& s : args.sequences) {
    call.most_blocks = std::max(call.most_blocks, static_cast<int64_t>(s.block_table.size()));
    most_keys = std::max<int64_t>(most_keys, s.first_position + s.tokens);
  }
  for (const auto& g : call.split.groups) most_runs = std::max<int64_t>(most_runs, g.num_runs);
  reserve_attention_scratch(attention_scratch_floats(std::max(kItemRows, group), shape.head_dim), most_runs,
                            most_runs * call.most_blocks);

  if (items < wanted_items && most_runs == 1 && most_keys > kKeyBlock) return attention_by_parts(call, items);
  pool_.parallel_for(items, [&](int64_t index, int thread) {
    kernels_.attention(attention_item(call, index, thread, 0, std::numeric_limits<int64_t>::max()));
  });
}

// So few items that the keys of each are shared out too.
void CpuBackend::attention_by_parts(const AttentionCall& call, int64_t items) {
  const auto kv_heads = call.storage.shape().kv_heads;
  const int64_t pieces = (kPartsAThread * pool_.size() + items - 1) / items;
  std::vector<Part> parts;
  std::vector<AttentionParts> whole(static_cast<size_t>(items));
  int64_t floats = 0;
  for (int64_t index = 0; index < items; ++index) {
    const Run& run = call.split.runs[static_cast<size_t>(index / kv_heads)];
    const int64_t keys =
        call.args.sequences[static_cast<size_t>(run.sequence)].first_position + run.first_token + run.tokens;
    const int64_t blocks = (keys + kKeyBlock - 1) / kKeyBlock;
    const int64_t seen = first_block_seen(keys - run.tokens, call.args.window);
    const int64_t length = std::max<int64_t>(1, (blocks - seen) / pieces);
    const int64_t rows = int64_t{run.tokens} * call.args.heads / kv_heads;
    const int64_t stride = 2 * round_up_to_panel(rows) + rows * round_up_to_panel(call.storage.shape().head_dim);
    whole[static_cast<size_t>(index)] = {.floats = nullptr, .stride = stride, .first = seen, .end = blocks};
    for (int64_t first = seen; first < blocks; first += length)
      parts.push_back({index, first, std::min(blocks, first + length)});
    floats += blocks * stride;
  }
  reserve_floats(parts_, floats);
  float* next = parts_.as<float>();
  for (AttentionParts& of : whole) {
    of.floats = next;
    next += of.end * of.stride;
  }
  const auto count = static_cast<int64_t>(parts.size());
  pool_.parallel_for(count, [&](int64_t i, int thread) {
    const Part& part = parts[static_cast<size_t>(by_turns(i, count, pool_.size()))];
    const AttentionParts& of = whole[static_cast<size_t>(part.item)];
    const int64_t end = part.end + 1;  // with the block after the part, which most often comes next
    kernels_.attention_parts(attention_item(call, part.item, thread, part.first * kKeyBlock, end * kKeyBlock),
                             {.floats = of.floats, .stride = of.stride, .first = part.first, .end = part.end});
  });
  // A few hundred products each: not worth waking anyone for.
  const FloatModeGuard mode;
  for (int64_t index = 0; index < items; ++index)
    kernels_.merge_parts(attention_item(call, index, 0, 0, 0), whole[static_cast<size_t>(index)]);
}

}  // namespace unspool::cpu
