// The backend on the processor's own cores.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernel_table.h"
#include "tensor/buffer.h"
#include "threading/thread_pool.h"

namespace unspool::cpu {

class KvStorage;
class PackedMatrix;
class PackedInput;

class CpuBackend final : public Backend {
 public:
  // `forced_isa`: a kernel table's name, or empty for the best one. The pool outlives the backend.
  static Result<std::unique_ptr<CpuBackend>> create(ThreadPool& pool, std::string_view forced_isa);

  const KernelTable& kernels() const { return kernels_; }
  std::string_view instruction_set() const override { return kernels_.name; }
  const VocabKernels& vocab_kernels() const override { return kernels_.vocab; }

  Result<std::unique_ptr<Matrix>> make_matrix(int64_t rows, int64_t columns, DType dtype) override;
  void load_rows(Matrix& matrix, int64_t first_row, const TensorView& source) override;
  void copy_rows(Matrix& to, const Matrix& from, int64_t first, int64_t count) override;
  void write_elements(std::span<const ElementWrites> writes) override;
  Hash128 digest(const Matrix& matrix, int64_t first, int64_t count, Hash128 before) override;
  Result<std::unique_ptr<ProductInput>> make_product_input(int64_t max_rows, int64_t columns, DType weights,
                                                           MatmulPrecision precision) override;
  Result<std::unique_ptr<ExpertScratch>> make_expert_scratch(const ExpertShape& shape, DType weights,
                                                             MatmulPrecision precision) override;
  Result<std::unique_ptr<KvCache>> make_kv_cache(const KvCacheShape& shape) override;

  void embed(const Matrix& table, std::span<const int32_t> ids, float scale, float* y) override;
  void prepare(const float* x, int64_t rows, int64_t stride, ProductInput& y) override;
  void rms_norm(const float* x, int64_t rows, const RmsNorm& norm, ProductInput& y) override;
  void add_rms_norm(const float* x, int64_t rows, const RmsNorm& norm, float* y) override;
  void linear(const ProductInput& x, const Matrix& w, const float* bias, bool accumulate, float* y,
              int64_t stride) override;
  void logits(const ProductInput& x, const Matrix& w, float softcap, float* y, BlockStat* blocks) override;
  void gated(const ProductInput& x, const GatedArgs& args, ProductInput& y) override;
  void route(const float* logits, int64_t rows, int64_t experts, bool normalize, ExpertRoutes& to) override;
  void experts(const ExpertArgs& args, ExpertScratch& scratch, float* y) override;
  void attention(const AttentionArgs& args, KvCache& cache, MatmulPrecision precision, float* y) override;

 private:
  struct Tile;
  struct Output;
  struct Runs;
  CpuBackend(ThreadPool& pool, const KernelTable& kernels);
  template <class F>
  void for_rows(int64_t rows, F&& f);
  template <class F, class Done>
  void for_runs(int64_t rows, const Runs& runs, F&& f, Done&& done);
  template <class F>
  void for_tiles(int64_t rows, int64_t panels, F&& f);
  void tile_product(const PackedInput& x, const PackedMatrix& w, const Tile& tile, float* out, float* low,
                    const void* ahead) const;
  void linear_tile(const PackedInput& x, const PackedMatrix& w, const Tile& tile, const Output& to,
                   const void* ahead) const;
  void gated_tile(const PackedInput& x, const GatedArgs& args, const Tile& tile, const void* ahead,
                  PackedInput& y) const;
  void shift_tile(const PackedInput& x, const PackedMatrix& w, const Tile& tile, int64_t columns, int64_t shift,
                  float* out) const;
  void rotate_and_store(const AttentionArgs& args, KvStorage& cache);
  struct AttentionCall;
  AttentionItem attention_item(const AttentionCall& call, int64_t index, int thread, int64_t first_key,
                               int64_t end_key);
  void attention_by_parts(const AttentionCall& call, int64_t items);
  void reserve_attention_scratch(int64_t floats, int64_t runs, int64_t pointers);

  ThreadPool& pool_;
  const KernelTable& kernels_;
  struct Scratch {
    Buffer floats;
    std::vector<AttentionRun> runs;
    std::vector<const void*> pointers;
  };
  std::vector<Scratch> scratch_;  // one a thread
  Buffer parts_;                  // of attention whose keys are shared out
};

// Rows a task of row-by-row work takes: enough to be worth a trip to the shared counter.
inline constexpr int64_t kRowChunk = 8;

// f(row) for every row: on the caller alone where waking others would cost more than it saves.
template <class F>
void CpuBackend::for_rows(int64_t rows, F&& f) {
  if (rows <= kRowChunk / 2) {
    const FloatModeGuard mode;
    for (int64_t r = 0; r < rows; ++r) f(r);
    return;
  }
  const int64_t chunk = std::min(kRowChunk, (rows + pool_.size() - 1) / pool_.size());
  pool_.parallel_for((rows + chunk - 1) / chunk, [&](int64_t i, int) {
    for (int64_t r = i * chunk; r < std::min(rows, (i + 1) * chunk); ++r) f(r);
  });
}

}  // namespace unspool::cpu
