// The seam between the model and a device: memory in the device's own layouts, and the operations a model needs.
// Every operation's arithmetic is fixed by docs/numerics.md; how it is split over rows, columns and threads is the
// backend's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/experts.h"
#include "backend/vocab_kernels.h"
#include "base/hash.h"
#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/tensor_view.h"

namespace unspool {

// What a product makes of float32 activations where the weights are bf16: one bf16, or a high and a low one with a
// chain each.
enum class MatmulPrecision { kBf16, kBf16x2 };

// Where a row's elements lie in Matrix::storage(), counted in elements: groups of 2^group_bits columns side by side,
// `stride` apart.
struct RowLayout {
  int64_t start, group_bits, stride;
  int64_t position(int64_t column) const {
    return start + (column >> group_bits) * stride + (column & ((int64_t{1} << group_bits) - 1));
  }
};

// A weight [rows, columns] in the backend's layout; one product gives `rows` outputs from `columns` inputs.
class Matrix {
 public:
  virtual ~Matrix() = default;
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  DType dtype() const { return dtype_; }
  virtual size_t size_bytes() const = 0;  // of its memory, whether it is there or not

  // Gives the memory back to the operating system; allocate() gives zeros.
  virtual void release() = 0;
  virtual Status allocate() = 0;
  // The weights as the backend has them, for a copy that comes back to the same matrix. Empty while released.
  virtual std::span<std::byte> storage() = 0;
  // Rows [first, first + count), row-major in dtype(): the bits that were loaded. Any number of threads at once.
  virtual void read_rows(int64_t first, int64_t count, void* out) const = 0;
  // Exchanges the memory with a matrix of the same backend, shape and dtype.
  virtual void swap_storage(Matrix& other) = 0;
  virtual RowLayout row_layout(int64_t row) const = 0;

 protected:
  Matrix(int64_t rows, int64_t columns, DType dtype) : rows_(rows), columns_(columns), dtype_(dtype) {}
  int64_t rows_, columns_;
  DType dtype_;
};

// Elements of a matrix that get other values: those at base + positions[i] (RowLayout), each at most once.
struct ElementWrites {
  Matrix* matrix = nullptr;
  int64_t base = 0;
  std::span<const uint32_t> positions;
  const void* values = nullptr;  // [positions.size()], of the matrix's dtype
};

// The left side of products: up to max_rows rows in the form that a weight dtype and a precision ask for.
class ProductInput {
 public:
  virtual ~ProductInput() = default;
  int64_t rows() const { return rows_; }  // what the last operation wrote
  int64_t columns() const { return columns_; }

 protected:
  ProductInput(int64_t max_rows, int64_t columns) : max_rows_(max_rows), columns_(columns) {}
  int64_t rows_ = 0, max_rows_, columns_;
};

// y = x / sqrt(mean(x^2) + eps) * (weight + offset), over weight.size() features. Without a weight there is no norm.
struct RmsNorm {
  std::span<const float> weight;
  float eps = 0.0f;
  float offset = 0.0f;  // 1 where a checkpoint has the weights' distance from 1

  bool exists() const { return !weight.empty(); }
};

enum class Activation { kSilu, kGeluTanh };

// The two projections of a gated MLP. One matrix may hold both, the gates first.
struct GatedArgs {
  const Matrix* gate = nullptr;
  const Matrix* up = nullptr;
  int64_t up_row = 0;  // of `up`, where its rows start
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  Activation activation = Activation::kSilu;
};

struct KvCacheShape {
  int64_t layers = 0;
  int64_t blocks = 0;
  int64_t block_size = 16;  // tokens
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kBFloat16;

  // Of one block in every layer, as the CPU backend lays it out.
  int64_t block_bytes() const;
};

// Keys and values of every layer, in blocks.
class KvCache {
 public:
  virtual ~KvCache() = default;
  const KvCacheShape& shape() const { return shape_; }
  virtual void zero_blocks(std::span<const int32_t> blocks) = 0;
  virtual void copy_block(int32_t from, int32_t to) = 0;

  // Gives the memory back to the operating system; restore() gives zeros.
  virtual void release() = 0;
  virtual Status restore() = 0;
  virtual bool is_released() const = 0;
  virtual size_t resident_bytes() const = 0;  // what was touched of it

 protected:
  explicit KvCache(const KvCacheShape& shape) : shape_(shape) {}
  KvCacheShape shape_;
};

// Rows [first_row, first_row + tokens) of a step's batch: positions first_position and on of one sequence.
struct AttentionSequence {
  int first_row = 0;
  int tokens = 0;
  int first_position = 0;
  std::span<const int32_t> block_table;
};

// One layer's attention over a ragged batch.
struct AttentionArgs {
  float* qkv =
      nullptr;  // [tokens, (heads + 2 * kv_heads) * head_dim]: q, k and v side by side; q and k are rotated in place
  int heads = 0;
  int layer = 0;
  RmsNorm q_norm = {}, k_norm = {};  // before the rotation: over each head, or (of as many features) over all of them
  const float* cos = nullptr;        // [tokens, rotary_dim / 2], or null: no rotation
  const float* sin = nullptr;
  int64_t rotary_dim = 0;  // of each head, the first features, which are rotated; the others pass
  float scale = 0.0f;      // of the scores
  float softcap = 0.0f;    // scores are then softcap * tanh(score / softcap), where it is not 0
  int64_t window = 0;      // a token sees itself and the window - 1 before it, or (0) all before it
  std::span<const AttentionSequence> sequences;
  // Indices into `sequences` whose stored keys or values are not finite are marked with 1.
  std::span<uint8_t> non_finite;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view instruction_set() const = 0;
  virtual const VocabKernels& vocab_kernels() const = 0;

  virtual Result<std::unique_ptr<Matrix>> make_matrix(int64_t rows, int64_t columns, DType dtype) = 0;
  // Converts source [n, columns] into rows [first_row, first_row + n). float32, bfloat16 or float16 on either side.
  // What is of the matrix's dtype already keeps its bits.
  virtual void load_rows(Matrix& matrix, int64_t first_row, const TensorView& source) = 0;
  // Rows [first, first + count) of a matrix of the same shape and dtype, bit for bit.
  virtual void copy_rows(Matrix& to, const Matrix& from, int64_t first, int64_t count) = 0;
  virtual void write_elements(std::span<const ElementWrites> writes) = 0;
  // Rows that lie together: work on whole groups (from a multiple of it on) is the fastest.
  static constexpr int64_t kRowGroup = 16;
  // Of rows [first, first + count), `first` a multiple of kRowGroup: the same for the same bits. `before` is the digest
  // of the rows before them, if any.
  virtual Hash128 digest(const Matrix& matrix, int64_t first, int64_t count, Hash128 before) = 0;
  virtual Result<std::unique_ptr<ProductInput>> make_product_input(int64_t max_rows, int64_t columns, DType weights,
                                                                   MatmulPrecision precision) = 0;
  virtual Result<std::unique_ptr<ExpertScratch>> make_expert_scratch(const ExpertShape& shape, DType weights,
                                                                     MatmulPrecision precision) = 0;
  virtual Result<std::unique_ptr<KvCache>> make_kv_cache(const KvCacheShape& shape) = 0;

  // y[i] = row ids[i] of the table, times `scale`.
  virtual void embed(const Matrix& table, std::span<const int32_t> ids, float scale, float* y) = 0;
  // y = x as a product's left side; x is [rows, y.columns()], rows `stride` floats apart.
  virtual void prepare(const float* x, int64_t rows, int64_t stride, ProductInput& y) = 0;
  // y = norm(x), row by row.
  virtual void rms_norm(const float* x, int64_t rows, const RmsNorm& norm, ProductInput& y) = 0;
  // y += norm(x), row by row.
  virtual void add_rms_norm(const float* x, int64_t rows, const RmsNorm& norm, float* y) = 0;
  // y = x w^T (+ bias) (+ y, with `accumulate`); y is [x.rows(), w.rows()], rows `stride` floats apart. An input made
  // for float32 weights may meet bf16 ones: they are widened, and it is not rounded.
  virtual void linear(const ProductInput& x, const Matrix& w, const float* bias, bool accumulate, float* y,
                      int64_t stride) = 0;
  // y = x w^T, rows w.rows() apart, then softcap * tanh(y / softcap) where that is not 0, and the stats of every row's
  // blocks: [x.rows(), vocab_blocks(w.rows())].
  virtual void logits(const ProductInput& x, const Matrix& w, float softcap, float* y, BlockStat* blocks) = 0;
  // y = activation(x gate^T + gate_bias) * (x up^T + up_bias).
  virtual void gated(const ProductInput& x, const GatedArgs& args, ProductInput& y) = 0;
  // The softmax of every row of logits [rows, experts], and to.top_k of its largest; with `normalize` they are divided
  // by their sum.
  virtual void route(const float* logits, int64_t rows, int64_t experts, bool normalize, ExpertRoutes& to) = 0;
  // y [rows, hidden] += the sum over a row's experts of weight times output, in the order of their rank.
  virtual void experts(const ExpertArgs& args, ExpertScratch& scratch, float* y) = 0;
  // Norms and rotates q and k, stores k and v, attends; y is [tokens, heads * head_dim].
  virtual void attention(const AttentionArgs& args, KvCache& cache, MatmulPrecision precision, float* y) = 0;
};

}  // namespace unspool
