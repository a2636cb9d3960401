// One function table an instruction set. Plain data and pointers only: this header is compiled with every set's flags,
// so it holds no inline function and no template (the linker would keep one copy, perhaps the wrong one).
#pragma once

#include <cstdint>

#include "backend/vocab_kernels.h"

namespace unspool::cpu {

// Columns of a packed panel: one register of 16 floats, or two of 8.
inline constexpr int kPanel = 16;
// Of attention; model configs are held to it.
inline constexpr int kMaxHeadDim = 512;
// Keys of an attention block, at absolute positions (docs/numerics.md, section 3).
inline constexpr int kKeyBlock = 128;

// How numbers are stored where a product reads them. bf16 products take pairs of k; the others widen and take single
// ones.
enum class Stored : int { kBf16 = 0, kF16 = 1, kF32 = 2 };

// c[r, j] = the chain over k of a[r, k] * b[k, j], r < rows, over 16 * panels columns, every element from +0 (or from
// c). One step is a pair of k for bf16 (a: bf16 pairs, b: [step][16][2]), one k otherwise (a: float, b: [step][16]).
struct ProductArgs {
  const void* a;     // row 0
  int64_t a_stride;  // between rows, in steps (bf16: in pairs, else in floats)
  int64_t rows;
  // b[chunk * panels + j]: where chunk `chunk` of the steps starts for panel j. Chunks let K and V stay in their cache
  // blocks.
  const void* const* b;
  int64_t b_stride;         // between steps, in steps' elements of 16 columns: bytes are derived from the stored type
  int64_t steps;            // in all
  int64_t steps_per_chunk;  // every chunk but the last has this many
  // Where the reads go on after a chunk of panel j, seen from its end: what is prefetched towards the end of the chunk.
  int64_t next_bytes;
  // As many bytes of weights as these, which are wanted next and may be in memory; or null. Where there are more rows
  // than a register tile has, they are prefetched beside the products.
  const void* ahead;
  // Of attention: how far behind b[i], in entries, stands what is read after it; it is prefetched line by line beside
  // b[i], whose memory's own prefetchers see runs too short to be of use.
  int64_t next_offset = 0;
  int panels;
  float* c;
  int64_t c_stride;  // in floats
};

// What follows a product, one rounding a step: plus bias, plus residual (which is c's old content).
struct EpilogueArgs {
  const float* tile;  // [rows, tile_stride]
  int64_t tile_stride;
  int64_t rows;
  int64_t columns;
  const float* bias;  // [columns] or null
  float* y;           // [rows, y_stride]
  int64_t y_stride;
  bool add_to_y;
};

// Consecutive tokens of one sequence, for one kv head.
struct AttentionRun {
  const float* q;  // the kv head's first query head of the first token
  float* out;      // likewise
  int tokens;
  int first_position;         // of the first token
  const void* const* blocks;  // the sequence's blocks of this layer and kv head: K at +0, V at +v_offset_bytes
};

// One (rows, kv head) item of attention: rows are (token, head of the group) pairs, token-major, run after run.
struct AttentionItem {
  const AttentionRun* runs;
  int num_runs;
  // Leading blocks of kKeyBlock keys that all runs have in common, and every row sees whole (so none with a window).
  // Only the first run's `blocks` are read there.
  int shared_blocks;
  int64_t q_stride;  // between tokens, in floats
  int64_t out_stride;
  int group;  // query heads a kv head
  int64_t v_offset_bytes;
  int block_size;
  int head_dim;
  float scale;
  float softcap;   // or 0
  int64_t window;  // keys that a row sees, or 0: all
  Stored stored;
  bool split_inputs;  // bf16x2: q and p as a high and a low bf16, a chain of its own each
  float* scratch;     // attention_scratch_floats() floats, 64-byte aligned
};

// Blocks of kKeyBlock keys of an item with one run, computed on their own and merged later.
struct AttentionParts {
  float* floats;   // of the item's block 0, 64-byte aligned
  int64_t stride;  // between blocks, in floats: a multiple of 16, 2 * (rows, rounded up to 16) + rows * padded_dim
  int64_t first, end;
};

struct KernelTable {
  const char* name;
  int max_rows;    // rows of the register tile
  int max_panels;  // panels of the register tile

  // By Stored.
  void (*product[3])(const ProductArgs& args);
  // bf16 weights as the second, widened in the register: the float32 chain. One step is a pair of k on both sides (a:
  // pairs of floats).
  void (*wide_product)(const ProductArgs& args);
  void (*epilogue)(const EpilogueArgs& args);
  // y = silu(gate + bias) * (up + bias) for one row of `columns`.
  void (*silu_mul)(const float* gate, const float* up, const float* gate_bias, const float* up_bias, int64_t columns,
                   float* y);
  // The same with gelu's approximation by tanh: 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))).
  void (*gelu_tanh_mul)(const float* gate, const float* up, const float* gate_bias, const float* up_bias,
                        int64_t columns, float* y);
  // x = cap * tanh(x / cap), in place.
  void (*softcap)(float* x, float cap, int64_t n);
  // y = y + (weights[0] * rows[0] + weights[1] * rows[1] + ...): the first is a product, the others are added to it by
  // fused steps.
  void (*add_weighted)(const float* const* rows, const float* weights, int count, int64_t n, float* y);
  // In place: exp(x - max) over its sum, which is 16 partial sums by index mod 16.
  void (*softmax)(float* x, int64_t n);
  // 1 / (1 + exp(-x)), in place.
  void (*sigmoid)(float* x, int64_t n);
  // y = x / sqrt(mean(x^2) + eps) * (weight + offset), for one row. weight may be null (1).
  void (*rms_norm)(const float* x, const float* weight, float offset, float eps, int64_t n, float* y);
  // In place on one head: the halves rotated by cos and sin of [head_dim / 2].
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t half);
  void (*to_bf16)(const float* x, int64_t n, uint16_t* hi);
  // hi = bf16(x), lo = bf16(x - hi).
  void (*to_bf16x2)(const float* x, int64_t n, uint16_t* hi, uint16_t* lo);
  void (*to_f16)(const float* x, int64_t n, uint16_t* y);
  // By Stored, from and to: kPanel rows of `columns` weights, one behind the other and perhaps unaligned, into a panel,
  // which is on a boundary of 64 bytes (of 32, as f16). What is stored alike keeps its bits.
  void (*pack[3][3])(const void* rows, int64_t columns, void* panel);
  void (*attention)(const AttentionItem& item);
  // The same in two halves, with the same bits: blocks of keys, which any thread takes, then all of them from the left.
  void (*attention_parts)(const AttentionItem& item, const AttentionParts& parts);
  void (*merge_parts)(const AttentionItem& item, const AttentionParts& parts);

  // The processor's limits, for benchmarks: what comes of it is added to out [16], so that no work is left out.
  // Products from registers, `rounds` times a fixed number; returns the operations done.
  int64_t (*only_bf16_products)(int64_t rounds, float* out);
  int64_t (*only_f32_products)(int64_t rounds, float* out);
  void (*only_reads)(const void* memory, int64_t bytes, float* out);  // bytes: a multiple of 512

  VocabKernels vocab;
};

const KernelTable& scalar_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();       // plain FMA
const KernelTable& avx512_bf16_kernels();  // VDPBF16PS

}  // namespace unspool::cpu
