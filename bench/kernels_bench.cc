// Products and norms through the backend at the shapes of SmolLM2-135M and Qwen3-0.6B. `hot`: one matrix, which stays
// in the cache where it fits; `cold`: enough of them by turns that each comes from memory, as in a step.
#include "bench_support.h"

namespace unspool::bench {
namespace {

constexpr auto kBf16 = DType::kBFloat16;
constexpr auto kOne = MatmulPrecision::kBf16, kTwo = MatmulPrecision::kBf16x2;
// Twice the largest L3 that a pair of cores is lent.
constexpr size_t kColdBytes = size_t{64} << 20;

struct Shape2 {
  const char* name;
  int64_t outputs, inputs;
};
constexpr Shape2 kLinears[] = {
    {"smollm2/qkv", 960, 576}, {"smollm2/o", 576, 576}, {"smollm2/down", 576, 1536},
    {"qwen3/qkv", 4096, 1024}, {"qwen3/o", 1024, 2048}, {"qwen3/down", 1024, 3072},
};
constexpr Shape2 kHeads[] = {{"smollm2/head", 49'152, 576}, {"qwen3/head", 151'936, 1024}};
constexpr Shape2 kMlps[] = {{"smollm2/gate_up", 1536, 576}, {"qwen3/gate_up", 3072, 1024}};
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512};

std::unique_ptr<Matrix> matrix(int64_t rows, int64_t columns, DType dtype) {
  auto made = backend().make_matrix(rows, columns, dtype).value();
  const std::vector<float> source = values(rows * columns);
  backend().load_rows(*made, 0, {source.data(), DType::kFloat32, Shape{rows, columns}});
  return made;
}

// The matrices of one benchmark after the other, which mostly are the same.
const std::vector<std::unique_ptr<Matrix>>& matrices(int64_t rows, int64_t columns, DType dtype, bool cold,
                                                     size_t at_least) {
  static std::vector<std::unique_ptr<Matrix>> made;
  if (!made.empty() && (made[0]->rows() != rows || made[0]->columns() != columns || made[0]->dtype() != dtype))
    made.clear();
  const auto enough = [&] {
    return made.size() >= at_least && (!cold || made.size() * made[0]->size_bytes() >= kColdBytes);
  };
  while (made.empty() || !enough()) made.push_back(matrix(rows, columns, dtype));
  return made;
}

void linear(benchmark::State& state, const Shape2& shape, DType dtype, MatmulPrecision precision, bool cold) {
  const int64_t rows = state.range(0);
  const auto& weights = matrices(shape.outputs, shape.inputs, dtype, cold, 1);
  const size_t turns = cold ? weights.size() : 1;
  const std::vector<float> x = values(rows * shape.inputs);
  std::vector<float> y(static_cast<size_t>(rows * shape.outputs));
  const auto input = backend().make_product_input(rows, shape.inputs, dtype, precision).value();
  backend().prepare(x.data(), rows, shape.inputs, *input);
  size_t next = 0;
  for (auto _ : state) {
    backend().linear(*input, *weights[next++ % turns], nullptr, false, y.data(), shape.outputs);
    benchmark::DoNotOptimize(y.data());
  }
  const double chains = precision == kTwo ? 2.0 : 1.0;
  report(state, 2.0 * chains * static_cast<double>(rows * shape.outputs * shape.inputs),
         static_cast<double>(weights[0]->size_bytes()), dtype == kBf16);
}

void gated(benchmark::State& state, const Shape2& shape, bool cold) {
  const int64_t rows = state.range(0);
  const auto& weights = matrices(shape.outputs, shape.inputs, kBf16, cold, 2);
  const size_t pairs = cold ? weights.size() / 2 : 1;
  const std::vector<float> x = values(rows * shape.inputs);
  const auto input = backend().make_product_input(rows, shape.inputs, kBf16, kOne).value();
  const auto output = backend().make_product_input(rows, shape.outputs, kBf16, kOne).value();
  backend().prepare(x.data(), rows, shape.inputs, *input);
  size_t next = 0;
  for (auto _ : state) {
    const size_t at = next++ % pairs * 2;
    backend().gated(*input, {.gate = weights[at].get(), .up = weights[at + 1].get()}, *output);
  }
  report(state, 4.0 * static_cast<double>(rows * shape.outputs * shape.inputs),
         2.0 * static_cast<double>(weights[0]->size_bytes()));
}

void rms_norm(benchmark::State& state, int64_t hidden) {
  const int64_t rows = state.range(0);
  const std::vector<float> x = values(rows * hidden), weight = values(hidden);
  const auto output = backend().make_product_input(rows, hidden, kBf16, kOne).value();
  for (auto _ : state) backend().rms_norm(x.data(), rows, {weight, 1e-5f}, *output);
  report(state, 4.0 * static_cast<double>(rows * hidden), 4.0 * static_cast<double>(rows * hidden), false);
}

constexpr int64_t kInner = 1536, kHidden = 576;  // SmolLM2's gates

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

template <class F>
benchmark::internal::Benchmark* add(const std::string& name, int64_t most_rows, F f) {
  auto* bench = benchmark::RegisterBenchmark(name.c_str(), f)->ArgName("rows")->UseRealTime();
  for (const int64_t rows : kRows)
    if (rows <= most_rows) bench->Arg(rows);
  return bench;
}

void add_all() {
  for (const Shape2& shape : kLinears)
    for (const bool cold : {false, true})
      add(std::string(shape.name) + (cold ? "/cold" : "/hot"), 512,
          [&shape, cold](benchmark::State& state) { linear(state, shape, kBf16, kOne, cold); });
  for (const Shape2& shape : kMlps)
    for (const bool cold : {false, true})
      add(std::string(shape.name) + (cold ? "/cold" : "/hot"), 512,
          [&shape, cold](benchmark::State& state) { gated(state, shape, cold); });
  // A step has at most 96 rows of logits at once, and no cache holds a head.
  for (const Shape2& shape : kHeads)
    add(std::string(shape.name) + "/cold", 96,
        [&shape](benchmark::State& state) { linear(state, shape, kBf16, kOne, true); });

  static constexpr Shape2 kOther = {"smollm2/down", 576, 1536};
  add("smollm2/down/bf16x2/cold", 512, [](benchmark::State& state) { linear(state, kOther, kBf16, kTwo, true); });
  add("smollm2/down/float16/cold", 512,
      [](benchmark::State& state) { linear(state, kOther, DType::kFloat16, kOne, true); });
  add("smollm2/down/float32/cold", 512,
      [](benchmark::State& state) { linear(state, kOther, DType::kFloat32, kOne, true); });
  add("smollm2/rms_norm", 512, [](benchmark::State& state) { rms_norm(state, 576); });
  add("qwen3/rms_norm", 512, [](benchmark::State& state) { rms_norm(state, 1024); });

  const auto add_pack = [](const char* name, DType from, DType to) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { pack(state, from, to); })->UseRealTime();
  };
  add_pack("pack/bf16", kBf16, kBf16);
  add_pack("pack/float32_to_bf16", DType::kFloat32, kBf16);
  add_pack("pack/float32", DType::kFloat32, DType::kFloat32);
  add_pack("pack/float16", DType::kFloat16, DType::kFloat16);
  benchmark::RegisterBenchmark("write_elements", write_elements)->UseRealTime();
}

}  // namespace
}  // namespace unspool::bench

int main(int argc, char** argv) {
  unspool::bench::add_all();
  return unspool::bench::run_benchmarks(argc, argv);
}
