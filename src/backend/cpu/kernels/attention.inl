// Attention over absolute blocks of 128 keys, merged left to right (docs/numerics.md, section 3). Keys lie in lanes: K
// is [step][block_size], V is [step over keys][head_dim], so both products are product_tile's.

// Scratch of one item: see attention_scratch_floats().
struct AttentionScratch {
  float* q;           // rows in the product's form: floats, or pairs of bf16 (hi, then lo)
  float* p;           // likewise, [rows, kKeyBlock]
  float* scores;      // [rows, kKeyBlock]
  float* second;      // the low halves' product (bf16x2), as large as the larger of scores and sum
  float* sum;         // [rows, padded_dim], of one block
  float* total;       // [rows, padded_dim]
  float* max;         // [rows]
  float* mass;        // [rows]
  float* block_max;   // [rows]
  float* block_mass;  // [rows]
  float* keys;        // K of one block, gathered, where a cache block is shorter than a panel
};

static inline int64_t round_up_16(int64_t n) {
  return (n + 15) / 16 * 16;
}

static AttentionScratch carve(const AttentionItem& item, int64_t rows) {
  const int64_t dim = round_up_16(item.head_dim);
  const int64_t wide = dim > kKeyBlock ? dim : kKeyBlock;
  float* p = item.scratch;
  auto take = [&p](int64_t n) {
    float* start = p;
    p += round_up_16(n);
    return start;
  };
  AttentionScratch s;
  s.q = take(rows * dim);
  s.p = take(rows * kKeyBlock);
  s.scores = take(rows * kKeyBlock);
  s.second = take(rows * wide);
  s.sum = take(rows * dim);
  s.total = take(rows * dim);
  s.max = take(rows);
  s.mass = take(rows);
  s.block_max = take(rows);
  s.block_mass = take(rows);
  s.keys = take(static_cast<int64_t>(kKeyBlock) * dim);
  return s;
}

// Writes one row of a product's left side: floats as they are, or bf16 and (split) the rest as a second matrix behind.
template <bool kPairs>
static inline void put_row(const float* x, int64_t n, bool split, float* matrix, int64_t row, int64_t rows) {
  if constexpr (kPairs) {
    auto* hi = reinterpret_cast<uint16_t*>(matrix) + row * n;
    if (split)
      to_bf16x2(x, n, hi, hi + rows * n);
    else
      to_bf16(x, n, hi);
  } else {
    for (int64_t j = 0; j < n; ++j) matrix[row * n + j] = x[j];
  }
}

// c = a * b, for split inputs the sum of the high and the low half's products.
template <class Kind>
static inline void split_product(ProductArgs args, bool split, int64_t low_offset_steps, float* second,
                                 int64_t columns) {
  product<Kind, Fetch::kNext>(args);
  if (!split) return;
  ProductArgs low = args;
  low.a = static_cast<const typename Kind::A*>(args.a) + low_offset_steps;
  low.c = second;
  product<Kind>(low);
  for (int64_t r = 0; r < args.rows; ++r)
    for (int64_t j = 0; j < columns; j += 16) {
      float* c = args.c + r * args.c_stride + j;
      f_store(c, f_add(f_load(c), f_load(second + r * args.c_stride + j)));
    }
}

// Gathers K of a block into panels of 16 keys from cache blocks of 8. Keys from `length` on may have no cache block.
template <class Kind>
static inline void gather_keys(const void* const* blocks, int64_t block_start, int64_t length, int tiles, int64_t steps,
                               float* keys) {
  constexpr int64_t kHalf = Kind::kStepBytes / 2;
  auto* out = reinterpret_cast<unsigned char*>(keys);
  for (int t = 0; t < tiles; ++t)
    for (int part = 0; part < 2; ++part) {
      const int64_t index = block_start / 8 + 2 * t + part;
      const bool exists = index * 8 < length;
      const auto* in = exists ? static_cast<const unsigned char*>(blocks[index]) : nullptr;
      for (int64_t s = 0; s < steps; ++s) {
        unsigned char* to = out + (t * steps + s) * Kind::kStepBytes + part * kHalf;
        if (exists)
          __builtin_memcpy(to, in + s * kHalf, kHalf);
        else
          __builtin_memset(to, 0, kHalf);
      }
    }
}

// Scores of one row in one block to probabilities: p unrounded in place, its maximum and its sum.
static inline void softmax_block(float* s, int visible, int tiles, float scale, float* max, float* mass) {
  const F factor = f_set1(scale);
  if (visible == kKeyBlock) {  // a whole block passes through registers once
    F v[kKeyBlock / 16];
    F m = v[0] = f_mul(f_load(s), factor);
#pragma GCC unroll 8
    for (int t = 1; t < kKeyBlock / 16; ++t) m = f_max(m, v[t] = f_mul(f_load(s + 16 * t), factor));
    *max = f_max_lane(m);
    const F shift = f_set1(*max);
    F sum = f_zero();
#pragma GCC unroll 8
    for (int t = 0; t < kKeyBlock / 16; ++t) {
      v[t] = f_exp_not_huge(f_sub(v[t], shift));
      sum = f_add(sum, v[t]);
      f_store(s + 16 * t, v[t]);
    }
    *mass = f_sum_tree(sum);
    return;
  }
  const float lowest = -__builtin_inff();
  F m = f_set1(lowest);
  for (int t = 0; t < tiles; ++t) {
    const F v = f_mul(f_load(s + 16 * t), factor);
    f_store(s + 16 * t, v);
    const int n = visible - 16 * t;
    if (n > 0) m = f_max(m, n < 16 ? f_keep_n(v, n, lowest) : v);
  }
  *max = f_max_lane(m);
  const F shift = f_set1(*max);
  F sum = f_zero();
  for (int t = 0; t < tiles; ++t) {
    const int n = visible - 16 * t;
    F p = f_zero();
    if (n > 0) {
      p = f_exp_not_huge(f_sub(f_load(s + 16 * t), shift));
      if (n < 16) p = f_keep_n(p, n, 0.0f);
    }
    sum = f_add(sum, p);
    f_store(s + 16 * t, p);
  }
  *mass = f_sum_tree(sum);
}

// What the scores of one row become where it does not see the block's first `unseen` keys, or where there is a soft
// cap: scaled, capped, and without weight. The scale has been taken then.
static inline void bend_scores(float* s, int unseen, int tiles, float scale, float cap) {
  for (int t = 0; t < tiles; ++t) f_store(s + 16 * t, f_mul(f_load(s + 16 * t), f_set1(scale)));
  if (cap != 0.0f) softcap(s, cap, 16 * tiles);
  for (int i = 0; i < unseen; ++i) s[i] = -__builtin_inff();
}

// Adds one block of `count` rows to what stands to its left. The scalars of 16 rows are taken at a time; the arrays of
// a row each end on a whole register.
static inline void merge_rows(const AttentionScratch& s, int64_t first, int64_t count, int64_t dim) {
  for (int64_t row = first; row < first + count; row += 16) {
    const int n = first + count - row < 16 ? static_cast<int>(first + count - row) : 16;
    const F old_max = f_load_n(s.max + row, n, 0.0f), block_max = f_load_n(s.block_max + row, n, 0.0f);
    const F max = f_max(old_max, block_max);
    const F a = f_exp_not_huge(f_sub(old_max, max)), b = f_exp_not_huge(f_sub(block_max, max));
    const F mass = f_fma(f_load_n(s.mass + row, n, 0.0f), a, f_mul(f_load_n(s.block_mass + row, n, 0.0f), b));
    f_store_n(s.max + row, max, n);
    f_store_n(s.mass + row, mass, n);
    alignas(64) float old_scale[16], block_scale[16];
    f_store(old_scale, a);
    f_store(block_scale, b);
    for (int i = 0; i < n; ++i) {
      const F va = f_set1(old_scale[i]), vb = f_set1(block_scale[i]);
      float* total = s.total + (row + i) * dim;
      const float* sum = s.sum + (row + i) * dim;
      for (int64_t j = 0; j < dim; j += 16)
        f_store(total + j, f_fma(f_load(total + j), va, f_mul(f_load(sum + j), vb)));
    }
  }
}

// Rows of an item that go through a block of keys together.
struct AttentionRows {
  int64_t first, count;
  int64_t first_position;     // of row `first`
  const void* const* blocks;  // where they find the keys
  int64_t length;             // keys that the last of them sees
  int64_t known;              // keys whose cache blocks are in `blocks`
};

// Keys of the block at `start` that are before those that row rows.first + r sees: up to all of them, with a window.
static inline int unseen_keys(const AttentionItem& item, const AttentionRows& rows, int64_t r, int64_t start) {
  if (item.window == 0) return 0;
  const int64_t first = rows.first_position + r / item.group + 1 - item.window - start;
  return static_cast<int>(first < 0 ? 0 : first < kKeyBlock ? first : kKeyBlock);
}

// The end of those that it sees, or 0 where there are none: they all come after it, or are out of its window.
static inline int visible_keys(const AttentionItem& item, const AttentionRows& rows, int64_t r, int64_t start) {
  const int64_t keys = rows.length - start < kKeyBlock ? rows.length - start : kKeyBlock;
  const int64_t limit = rows.first_position + r / item.group + 1 - start;
  const int end = static_cast<int>(limit < 0 ? 0 : limit < keys ? limit : keys);
  return unseen_keys(item, rows, r, start) < end ? end : 0;
}

// block_max, block_mass and sum of the rows over the keys [start, start + kKeyBlock) that they see.
template <class Kind, bool kPairs>
static void attend_block(const AttentionItem& item, const AttentionScratch& s, int64_t all_rows,
                         const AttentionRows& rows, int64_t start) {
  constexpr int kKeysAStep = kPairs ? 2 : 1;
  constexpr int64_t kPStride = kKeyBlock / kKeysAStep;
  const int64_t dim = round_up_16(item.head_dim), q_steps = item.head_dim / kKeysAStep;
  const int panels = static_cast<int>(dim / 16);
  const int64_t element_bytes = Kind::kStepBytes / 16;  // of one key (or column) in one step
  const bool split = kPairs && item.split_inputs;       // float keys and values take the inputs whole
  const int keys = static_cast<int>(rows.length - start < kKeyBlock ? rows.length - start : kKeyBlock);
  const int tiles = (keys + 15) / 16;

  constexpr int64_t kMaxPointers = kKeyBlock / 8 * 32;  // 16 cache blocks by 32 panels of V (head_dim up to 512)
  const void* b[2 * kMaxPointers];                      // of this block of keys, then of the one after it
  const void** next = b + kMaxPointers;
  const auto cache_block = [&](int64_t key) {
    return static_cast<const unsigned char*>(rows.blocks[key / item.block_size]);
  };
  const bool gathered = item.block_size < 16;
  if (gathered) gather_keys<Kind>(rows.blocks, start, rows.length, tiles, q_steps, s.keys);
  const auto key_tile = [&](int64_t key) { return cache_block(key) + key % item.block_size * element_bytes; };
  for (int t = 0; t < tiles; ++t) {
    const int64_t key = start + 16 * t;
    b[t] = gathered ? reinterpret_cast<const unsigned char*>(s.keys) + t * q_steps * Kind::kStepBytes : key_tile(key);
    next[t] = gathered || key + kKeyBlock >= rows.known ? b[t] : key_tile(key + kKeyBlock);
  }
  split_product<Kind>({.a = reinterpret_cast<const typename Kind::A*>(s.q) + rows.first * q_steps,
                       .a_stride = q_steps,
                       .rows = rows.count,
                       .b = b,
                       .b_stride = gathered ? 1 : item.block_size / 16,
                       .steps = q_steps,
                       .steps_per_chunk = q_steps,
                       .next_bytes = 0,
                       .ahead = nullptr,
                       .next_offset = kMaxPointers,
                       .panels = tiles,
                       .c = s.scores + rows.first * kKeyBlock,
                       .c_stride = kKeyBlock},
                      split, all_rows * q_steps, s.second, 16 * tiles);

  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t row = rows.first + r;
    float* scores = s.scores + row * kKeyBlock;
    const int visible = visible_keys(item, rows, r, start), unseen = unseen_keys(item, rows, r, start);
    const bool bent = visible > 0 && (unseen > 0 || item.softcap != 0.0f);
    if (bent) bend_scores(scores, unseen, tiles, item.scale, item.softcap);
    softmax_block(scores, visible, tiles, bent ? 1.0f : item.scale, &s.block_max[row], &s.block_mass[row]);
    for (int j = 16 * tiles; j < kKeyBlock; ++j) scores[j] = 0.0f;
    put_row<kPairs>(scores, kKeyBlock, split, s.p, row, all_rows);
  }

  const int chunks = (keys + item.block_size - 1) / item.block_size;
  const auto value_panel = [&](int64_t key, int panel) {
    return cache_block(key) + item.v_offset_bytes + static_cast<int64_t>(panel) * Kind::kStepBytes;
  };
  for (int c = 0; c < chunks; ++c)
    for (int j = 0; j < panels; ++j) {
      const int64_t key = start + c * item.block_size;
      b[c * panels + j] = value_panel(key, j);
      next[c * panels + j] = value_panel(key + kKeyBlock < rows.known ? key + kKeyBlock : key, j);
    }
  split_product<Kind>({.a = reinterpret_cast<const typename Kind::A*>(s.p) + rows.first * kPStride,
                       .a_stride = kPStride,
                       .rows = rows.count,
                       .b = b,
                       .b_stride = panels,
                       .steps = (keys + kKeysAStep - 1) / kKeysAStep,
                       .steps_per_chunk = item.block_size / kKeysAStep,
                       .next_bytes = 0,
                       .ahead = nullptr,
                       .next_offset = kMaxPointers,
                       .panels = panels,
                       .c = s.sum + rows.first * dim,
                       .c_stride = dim},
                      split, all_rows * kPStride, s.second, dim);
}

// Adds the block at `start` to what the rows have of the blocks before it.
static inline void merge_block(const AttentionItem& item, const AttentionScratch& s, const AttentionRows& rows,
                               int64_t start) {
  int64_t first = 0, end = rows.count;  // without those that come before it, and those that are past it
  while (first < end && visible_keys(item, rows, first, start) == 0) ++first;
  while (end > first && visible_keys(item, rows, end - 1, start) == 0) --end;
  merge_rows(s, rows.first + first, end - first, round_up_16(item.head_dim));
}

static inline int64_t rows_of(const AttentionItem& item) {
  int64_t rows = 0;
  for (int i = 0; i < item.num_runs; ++i) rows += static_cast<int64_t>(item.runs[i].tokens) * item.group;
  return rows;
}

static inline AttentionRows own_rows(const AttentionItem& item, const AttentionRun& run, int64_t first) {
  const int64_t length = static_cast<int64_t>(run.first_position) + run.tokens;
  return {first, static_cast<int64_t>(run.tokens) * item.group, run.first_position, run.blocks, length, length};
}

// Where the first block starts that any of the rows sees.
static inline int64_t first_seen(const AttentionItem& item, const AttentionRows& rows) {
  const int64_t key = item.window == 0 ? 0 : rows.first_position + 1 - item.window;
  return key < 0 ? 0 : key / kKeyBlock * kKeyBlock;
}

template <bool kPairs>
static void put_queries(const AttentionItem& item, const AttentionScratch& s, int64_t rows) {
  int64_t row = 0;
  for (int i = 0; i < item.num_runs; ++i)
    for (int t = 0; t < item.runs[i].tokens; ++t)
      for (int g = 0; g < item.group; ++g)
        put_row<kPairs>(item.runs[i].q + t * item.q_stride + g * item.head_dim, item.head_dim,
                        kPairs && item.split_inputs, s.q, row++, rows);
}

static void put_nothing(const AttentionScratch& s, int64_t rows, int64_t dim) {
  for (int64_t i = 0; i < rows * dim; ++i) s.total[i] = 0.0f;
  for (int64_t r = 0; r < rows; ++r) s.max[r] = -__builtin_inff(), s.mass[r] = 0.0f;
}

static void put_outputs(const AttentionItem& item, const AttentionScratch& s, int64_t dim) {
  int64_t row = 0;
  for (int i = 0; i < item.num_runs; ++i)
    for (int64_t r = 0; r < static_cast<int64_t>(item.runs[i].tokens) * item.group; ++r, ++row) {
      float* out = item.runs[i].out + r / item.group * item.out_stride + r % item.group * item.head_dim;
      const F mass = f_set1(s.mass[row]);
      // Plus zero, so that a sum that underflowed is +0: its sign would tell how many masked keys were multiplied by 0
      // after it.
      for (int64_t j = 0; j < item.head_dim; j += 16)
        f_store_n(out + j, f_add(f_div(f_load(s.total + row * dim + j), mass), f_zero()),
                  item.head_dim - j < 16 ? static_cast<int>(item.head_dim - j) : 16);
    }
}

template <class Kind, bool kPairs>
static void attend(const AttentionItem& item) {
  const int64_t dim = round_up_16(item.head_dim), rows = rows_of(item);
  const AttentionScratch s = carve(item, rows);
  put_queries<kPairs>(item, s, rows);
  put_nothing(s, rows, dim);

  const int64_t shared = static_cast<int64_t>(item.shared_blocks) * kKeyBlock;
  // Every row sees these blocks whole: `shared` is a position that does.
  const AttentionRows all{0, rows, shared, item.runs[0].blocks, shared, own_rows(item, item.runs[0], 0).length};
  for (int64_t start = 0; start < shared; start += kKeyBlock) {
    attend_block<Kind, kPairs>(item, s, rows, all, start);
    merge_block(item, s, all, start);
  }
  int64_t row = 0;
  for (int i = 0; i < item.num_runs; ++i) {
    const AttentionRows own = own_rows(item, item.runs[i], row);
    for (int64_t start = shared > first_seen(item, own) ? shared : first_seen(item, own); start < own.length;
         start += kKeyBlock) {
      attend_block<Kind, kPairs>(item, s, rows, own, start);
      merge_block(item, s, own, start);
    }
    row += own.count;
  }
  put_outputs(item, s, dim);
}

static void attention(const AttentionItem& item) {
  switch (item.stored) {
    case Stored::kBf16:
      return attend<Bf16Kind, true>(item);
    case Stored::kF16:
      return attend<F16Kind, false>(item);
    case Stored::kF32:
      return attend<F32Kind, false>(item);
  }
}

// What is kept of a block: block_max and block_mass, each on whole registers, then sum.
static inline AttentionScratch with_part(AttentionScratch s, float* part, int64_t rows) {
  s.block_max = part;
  s.block_mass = part + round_up_16(rows);
  s.sum = part + 2 * round_up_16(rows);
  return s;
}

template <class Kind, bool kPairs>
static void attend_parts(const AttentionItem& item, const AttentionParts& parts) {
  const int64_t rows = rows_of(item);
  const AttentionScratch s = carve(item, rows);
  put_queries<kPairs>(item, s, rows);
  AttentionRows own = own_rows(item, item.runs[0], 0);
  const int64_t known = (parts.end + 1) * kKeyBlock;  // the item has one block more than the part
  if (known < own.known) own.known = known;
  for (int64_t block = parts.first; block < parts.end; ++block)
    attend_block<Kind, kPairs>(item, with_part(s, parts.floats + block * parts.stride, rows), rows, own,
                               block * kKeyBlock);
}

static void attention_parts(const AttentionItem& item, const AttentionParts& parts) {
  switch (item.stored) {
    case Stored::kBf16:
      return attend_parts<Bf16Kind, true>(item, parts);
    case Stored::kF16:
      return attend_parts<F16Kind, false>(item, parts);
    case Stored::kF32:
      return attend_parts<F32Kind, false>(item, parts);
  }
}

static void merge_parts(const AttentionItem& item, const AttentionParts& parts) {
  const int64_t dim = round_up_16(item.head_dim), rows = rows_of(item);
  const AttentionScratch s = carve(item, rows);
  put_nothing(s, rows, dim);
  const AttentionRows own = own_rows(item, item.runs[0], 0);
  for (int64_t block = parts.first; block < parts.end; ++block)
    merge_block(item, with_part(s, parts.floats + block * parts.stride, rows), own, block * kKeyBlock);
  put_outputs(item, s, dim);
}
