// Kernels through the backend, at SmolLM2-135M's shapes: GFLOP/s and GB/s to hold beside what build/peak says of the
// machine. UNSPOOL_ISA forces an instruction set; UNSPOOL_THREADS is 1 where unset.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace unspool {
namespace {

constexpr int64_t kHidden = 576, kInner = 1536, kHeads = 9, kKvHeads = 3, kHeadDim = 64, kVocab = 49'152;

Backend& backend() {
  const char* threads = std::getenv("UNSPOOL_THREADS");
  const char* isa = std::getenv("UNSPOOL_ISA");
  static ThreadPool pool(threads == nullptr ? 1 : std::atoi(threads));
  static const std::unique_ptr<Backend> made = cpu::CpuBackend::create(pool, isa == nullptr ? "" : isa).value();
  return *made;
}

std::vector<float> values(int64_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = uniform(random);
  return v;
}

std::unique_ptr<Matrix> matrix(int64_t rows, int64_t columns, DType dtype) {
  auto made = backend().make_matrix(rows, columns, dtype).value();
  const std::vector<float> source = values(rows * columns);
  backend().load_rows(*made, 0, {source.data(), DType::kFloat32, Shape{rows, columns}});
  return made;
}

// Multiplications and additions, and the bytes that have to come from memory once.
void report(benchmark::State& state, double flops, double bytes) {
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(flops * rounds * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] = benchmark::Counter(bytes * rounds * 1e-9, benchmark::Counter::kIsRate);
}

// One layer's matrix alone would stay in the cache; a model's do not. So enough of them to fill 64 MiB take turns.
void linear(benchmark::State& state, int64_t outputs, int64_t inputs, DType dtype, MatmulPrecision precision) {
  const int64_t rows = state.range(0);
  std::vector<std::unique_ptr<Matrix>> matrices;
  size_t bytes = 0;
  while (bytes < (size_t{64} << 20)) {
    matrices.push_back(matrix(outputs, inputs, dtype));
    bytes += matrices.back()->size_bytes();
  }
  const std::vector<float> x = values(rows * inputs);
  std::vector<float> y(static_cast<size_t>(rows * outputs));
  const auto input = backend().make_product_input(rows, inputs, dtype, precision).value();
  backend().prepare(x.data(), rows, inputs, *input);
  size_t next = 0;
  for (auto _ : state) {
    backend().linear(*input, *matrices[next++ % matrices.size()], nullptr, false, y.data(), outputs);
    benchmark::DoNotOptimize(y.data());
  }
  const double chains = precision == MatmulPrecision::kBf16x2 ? 2.0 : 1.0;
  report(state, 2.0 * chains * static_cast<double>(rows * outputs * inputs),
         static_cast<double>(matrices[0]->size_bytes()));
}

void gated_silu(benchmark::State& state) {
  const int64_t rows = state.range(0);
  std::vector<std::unique_ptr<Matrix>> matrices;
  for (int i = 0; i < 38; ++i) matrices.push_back(matrix(kInner, kHidden, DType::kBFloat16));
  const std::vector<float> x = values(rows * kHidden);
  const auto input = backend().make_product_input(rows, kHidden, DType::kBFloat16, MatmulPrecision::kBf16).value();
  const auto output = backend().make_product_input(rows, kInner, DType::kBFloat16, MatmulPrecision::kBf16).value();
  backend().prepare(x.data(), rows, kHidden, *input);
  size_t next = 0;
  for (auto _ : state) {
    backend().gated_silu(*input, *matrices[next % 38], *matrices[(next + 1) % 38], nullptr, nullptr, *output);
    next += 2;
  }
  report(state, 4.0 * static_cast<double>(rows * kInner * kHidden),
         2.0 * static_cast<double>(matrices[0]->size_bytes()));
}

void rms_norm(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const std::vector<float> x = values(rows * kHidden), weight = values(kHidden);
  const auto output = backend().make_product_input(rows, kHidden, DType::kBFloat16, MatmulPrecision::kBf16).value();
  for (auto _ : state) backend().rms_norm(x.data(), rows, weight, 1e-5f, *output);
  report(state, 4.0 * static_cast<double>(rows * kHidden), 4.0 * static_cast<double>(rows * kHidden));
}

// range: sequences, tokens of each in the step, keys before them. One token over long contexts is a decode.
void attention(benchmark::State& state, DType dtype) {
  const int64_t count = state.range(0), tokens = state.range(1), context = state.range(2);
  const int64_t blocks = (context + tokens + 15) / 16, width = (kHeads + 2 * kKvHeads) * kHeadDim;
  const auto cache = backend()
                         .make_kv_cache({.layers = 1,
                                         .blocks = count * blocks,
                                         .block_size = 16,
                                         .kv_heads = kKvHeads,
                                         .head_dim = kHeadDim,
                                         .dtype = dtype})
                         .value();
  std::vector<int32_t> table(static_cast<size_t>(count * blocks));
  std::iota(table.begin(), table.end(), 0);
  cache->zero_blocks(table);
  const std::vector<float> source = values(count * tokens * width);
  std::vector<float> qkv = source, y(static_cast<size_t>(count * tokens * kHeads * kHeadDim));
  const std::vector<float> cos(static_cast<size_t>(count * tokens * kHeadDim / 2), 1.0f), sin(cos.size(), 0.0f);
  std::vector<AttentionSequence> sequences;
  for (int64_t i = 0; i < count; ++i)
    sequences.push_back({static_cast<int>(i * tokens), static_cast<int>(tokens), static_cast<int>(context),
                         std::span(table).subspan(static_cast<size_t>(i * blocks), static_cast<size_t>(blocks))});
  std::vector<uint8_t> non_finite(sequences.size());
  const AttentionArgs args{.qkv = qkv.data(),
                           .heads = kHeads,
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .sequences = sequences,
                           .non_finite = non_finite};
  for (auto _ : state) backend().attention(args, *cache, MatmulPrecision::kBf16, y.data());
  const double seen =
      static_cast<double>(count * tokens) * (static_cast<double>(context) + static_cast<double>(tokens + 1) / 2);
  report(state, 4.0 * static_cast<double>(kHeads * kHeadDim) * seen,
         2.0 * static_cast<double>(count * (context + tokens) * kKvHeads * kHeadDim * dtype_size(dtype)));
}

// Weights as a checkpoint or an update brings them, all of SmolLM2's hidden layers' gates one behind the other; GB/s of
// what is read.
void pack(benchmark::State& state, DType from, DType to) {
  constexpr int64_t kMatrices = 60;
  const int64_t bytes = kInner * kHidden * dtype_size(from);
  const std::vector<unsigned char> source(static_cast<size_t>(kMatrices * bytes + 1), 0x3c);
  std::vector<std::unique_ptr<Matrix>> matrices;
  for (int64_t i = 0; i < kMatrices; ++i) matrices.push_back(matrix(kInner, kHidden, to));
  int64_t next = 0;
  for (auto _ : state) {
    const int64_t i = next++ % kMatrices;
    backend().load_rows(*matrices[static_cast<size_t>(i)], 0,
                        {source.data() + 1 + i * bytes, from, Shape{kInner, kHidden}});
  }
  report(state, 0, static_cast<double>(bytes));
}

// One element in a hundred of as many.
void write_elements(benchmark::State& state) {
  constexpr size_t kMatrices = 150;
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<std::vector<uint32_t>> positions(kMatrices);
  const std::vector<uint16_t> values(kInner * kHidden, 0x3c3c);
  std::mt19937 random(1);
  std::vector<ElementWrites> writes;
  size_t elements = 0;
  for (size_t i = 0; i < kMatrices; ++i) {
    matrices.push_back(matrix(kInner, kHidden, DType::kBFloat16));
    for (int64_t row = 0; row < kInner; ++row)
      for (int64_t k = 0; k < kHidden; ++k)
        if (random() % 100 == 0)
          positions[i].push_back(static_cast<uint32_t>(matrices[i]->row_layout(row).position(k)));
    writes.push_back({.matrix = matrices[i].get(), .base = 0, .positions = positions[i], .values = values.data()});
    elements += positions[i].size();
  }
  for (auto _ : state) backend().write_elements(writes);
  state.counters["elements/s"] = benchmark::Counter(
      static_cast<double>(elements) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

constexpr auto kBf16 = DType::kBFloat16;
constexpr auto kOne = MatmulPrecision::kBf16, kTwo = MatmulPrecision::kBf16x2;

#define LINEAR(NAME, ...) \
  BENCHMARK_CAPTURE(linear, NAME, __VA_ARGS__)->Arg(1)->Arg(16)->Arg(64)->Arg(512)->UseRealTime()
LINEAR(qkv, (kHeads + 2 * kKvHeads) * kHeadDim, kHidden, kBf16, kOne);
LINEAR(o, kHidden, kHidden, kBf16, kOne);
LINEAR(gate, kInner, kHidden, kBf16, kOne);
LINEAR(down, kHidden, kInner, kBf16, kOne);
LINEAR(down_x2, kHidden, kInner, kBf16, kTwo);
LINEAR(down_f16, kHidden, kInner, DType::kFloat16, kOne);
LINEAR(down_f32, kHidden, kInner, DType::kFloat32, kOne);
#undef LINEAR
BENCHMARK_CAPTURE(linear, head, kVocab, kHidden, kBf16, kOne)->Arg(1)->Arg(16)->Arg(64)->UseRealTime();
BENCHMARK(gated_silu)->Arg(1)->Arg(16)->Arg(64)->Arg(512)->UseRealTime();
BENCHMARK(rms_norm)->Arg(1)->Arg(64)->Arg(512)->UseRealTime();

BENCHMARK_CAPTURE(pack, bf16, kBf16, kBf16)->UseRealTime();
BENCHMARK_CAPTURE(pack, f32_to_bf16, DType::kFloat32, kBf16)->UseRealTime();
BENCHMARK_CAPTURE(pack, f32, DType::kFloat32, DType::kFloat32)->UseRealTime();
BENCHMARK_CAPTURE(pack, f16, DType::kFloat16, DType::kFloat16)->UseRealTime();
BENCHMARK(write_elements)->UseRealTime();

void attention_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"sequences", "tokens", "context"})->UseRealTime();
  for (const int64_t context : {128, 1024, 4096}) bench->Args({1, 1, context})->Args({64, 1, context});
  bench->Args({1, 512, 0})->Args({1, 512, 2048});
}
BENCHMARK_CAPTURE(attention, bf16, kBf16)->Apply(attention_sizes);
BENCHMARK_CAPTURE(attention, f32, DType::kFloat32)->Apply(attention_sizes);

}  // namespace
}  // namespace unspool

BENCHMARK_MAIN();
