// A backend that keeps the time of every operation of another one: where a step's time went, with nothing in the way of
// the operations when nobody asks.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>

#include "backend/backend.h"

namespace unspool {

// One kind of operation at one size, summed up.
struct OperationTime {
  int64_t calls = 0;
  double seconds = 0;
  double operations = 0;  // a multiply-add is two
  double bytes = 0;       // of weights, or of keys and values, each counted where it is used
};

struct OperationKey {
  std::string name;
  int64_t rows = 0, columns = 0;  // of the matrix; 0 where there is none
  auto operator<=>(const OperationKey&) const = default;
};

using OperationTimes = std::map<OperationKey, OperationTime>;

class TimedBackend final : public Backend {
 public:
  // `times` outlives the backend, and is the caller's to read and clear between operations.
  TimedBackend(std::unique_ptr<Backend> backend, OperationTimes& times) : backend_(std::move(backend)), times_(times) {}

  std::string_view instruction_set() const override { return backend_->instruction_set(); }
  const VocabKernels& vocab_kernels() const override { return backend_->vocab_kernels(); }

  Result<std::unique_ptr<Matrix>> make_matrix(int64_t rows, int64_t columns, DType dtype) override {
    return backend_->make_matrix(rows, columns, dtype);
  }
  void load_rows(Matrix& matrix, int64_t first_row, const TensorView& source) override {
    backend_->load_rows(matrix, first_row, source);
  }
  void copy_rows(Matrix& to, const Matrix& from, int64_t first, int64_t count) override {
    backend_->copy_rows(to, from, first, count);
  }
  void write_elements(std::span<const ElementWrites> writes) override { backend_->write_elements(writes); }
  Hash128 digest(const Matrix& matrix, int64_t first, int64_t count, Hash128 before) override {
    return backend_->digest(matrix, first, count, before);
  }
  Result<std::unique_ptr<ProductInput>> make_product_input(int64_t max_rows, int64_t columns, DType weights,
                                                           MatmulPrecision precision) override {
    return backend_->make_product_input(max_rows, columns, weights, precision);
  }
  Result<std::unique_ptr<ExpertScratch>> make_expert_scratch(const ExpertShape& shape, DType weights,
                                                             MatmulPrecision precision) override {
    return backend_->make_expert_scratch(shape, weights, precision);
  }
  Result<std::unique_ptr<KvCache>> make_kv_cache(const KvCacheShape& shape) override {
    return backend_->make_kv_cache(shape);
  }

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
  template <class F>
  void timed(OperationKey key, double operations, double bytes, F&& f);

  std::unique_ptr<Backend> backend_;
  OperationTimes& times_;
};

}  // namespace unspool
