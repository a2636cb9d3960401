#include "backend/timed_backend.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"

namespace unspool {

template <class F>
void TimedBackend::timed(OperationKey key, double operations, double bytes, F&& f) {
  const double started = monotonic_seconds();
  f();
  const double seconds = monotonic_seconds() - started;
  OperationTime& time = times_[std::move(key)];
  ++time.calls;
  time.seconds += seconds;
  time.operations += operations;
  time.bytes += bytes;
}

void TimedBackend::embed(const Matrix& table, std::span<const int32_t> ids, float scale, float* y) {
  timed({"embed"}, 0, 0, [&] { backend_->embed(table, ids, scale, y); });
}

void TimedBackend::prepare(const float* x, int64_t rows, int64_t stride, ProductInput& y) {
  timed({"prepare"}, 0, 0, [&] { backend_->prepare(x, rows, stride, y); });
}

void TimedBackend::rms_norm(const float* x, int64_t rows, const RmsNorm& norm, ProductInput& y) {
  timed({"rms_norm"}, 0, 0, [&] { backend_->rms_norm(x, rows, norm, y); });
}

void TimedBackend::add_rms_norm(const float* x, int64_t rows, const RmsNorm& norm, float* y) {
  timed({"add_rms_norm"}, 0, 0, [&] { backend_->add_rms_norm(x, rows, norm, y); });
}

void TimedBackend::linear(const ProductInput& x, const Matrix& w, const float* bias, bool accumulate, float* y,
                          int64_t stride) {
  timed({"linear", w.rows(), w.columns()}, 2.0 * static_cast<double>(x.rows() * w.rows() * w.columns()),
        static_cast<double>(w.size_bytes()), [&] { backend_->linear(x, w, bias, accumulate, y, stride); });
}

void TimedBackend::logits(const ProductInput& x, const Matrix& w, float softcap, float* y, BlockStat* blocks) {
  timed({"logits", w.rows(), w.columns()}, 2.0 * static_cast<double>(x.rows() * w.rows() * w.columns()),
        static_cast<double>(w.size_bytes()), [&] { backend_->logits(x, w, softcap, y, blocks); });
}

void TimedBackend::gated(const ProductInput& x, const GatedArgs& args, ProductInput& y) {
  const int64_t rows = 2 * y.columns(), columns = args.gate->columns();
  const auto bytes = args.gate->size_bytes() + (args.up == args.gate ? 0 : args.up->size_bytes());
  timed({"gated", rows, columns}, 2.0 * static_cast<double>(x.rows() * rows * columns), static_cast<double>(bytes),
        [&] { backend_->gated(x, args, y); });
}

void TimedBackend::route(const float* logits, int64_t rows, int64_t experts, bool normalize, ExpertRoutes& to) {
  timed({"route"}, 0, 0, [&] { backend_->route(logits, rows, experts, normalize, to); });
}

// Of the weights, those of experts that have rows are counted.
void TimedBackend::experts(const ExpertArgs& args, ExpertScratch& scratch, float* y) {
  const ExpertWeights& first = args.experts.front();
  const int64_t elements = first.gate->rows() * first.gate->columns() * 3;
  const auto bytes = static_cast<double>(first.gate->size_bytes() + first.up->size_bytes() + first.down->size_bytes());
  const std::set<int32_t> used(args.routes->experts.begin(), args.routes->experts.end());
  timed({"experts", first.gate->rows() * 3, first.gate->columns()},
        2.0 * static_cast<double>(args.routes->rows * args.routes->top_k * elements),
        bytes * static_cast<double>(used.size()), [&] { backend_->experts(args, scratch, y); });
}

void TimedBackend::attention(const AttentionArgs& args, KvCache& cache, MatmulPrecision precision, float* y) {
  const KvCacheShape& shape = cache.shape();
  double pairs = 0, keys = 0;  // of a row and a key that it sees; of all sequences' keys
  for (const AttentionSequence& s : args.sequences) {
    const double tokens = s.tokens, before = s.first_position, all = before + tokens;
    const auto window = static_cast<double>(args.window);
    pairs +=
        args.window > 0 ? tokens * std::min(window, before + (tokens + 1) / 2) : tokens * (before + (tokens + 1) / 2);
    keys += args.window > 0 ? std::min(all, window + tokens - 1) : all;
  }
  timed({"attention"}, 4.0 * static_cast<double>(args.heads * shape.head_dim) * pairs,
        2.0 * static_cast<double>(shape.kv_heads * shape.head_dim * dtype_size(shape.dtype)) * keys,
        [&] { backend_->attention(args, cache, precision, y); });
}

}  // namespace unspool
