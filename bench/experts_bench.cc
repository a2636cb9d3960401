// A layer of experts beside a dense MLP of the same active work: as wide as the experts of one row together. Weights
// come from memory in both, as in a step: layers by turns.
#include <set>

#include "bench_support.h"

namespace unspool::bench {
namespace {

constexpr auto kBf16 = DType::kBFloat16;
constexpr auto kOne = MatmulPrecision::kBf16;
constexpr size_t kColdBytes = size_t{128} << 20;

struct MoeShape {
  const char* name;
  int64_t hidden, inner, experts, top_k;
};
constexpr MoeShape kShapes[] = {
    {"8 experts, 2 a row", 1024, 768, 8, 2},
    {"16 experts, 4 a row", 1024, 512, 16, 4},
    {"qwen1.5-moe", 2048, 1408, 60, 4},
    {"qwen3-moe", 2048, 768, 128, 8},
};

std::unique_ptr<Matrix> matrix(int64_t rows, int64_t columns) {
  auto made = backend().make_matrix(rows, columns, kBf16).value();
  const std::vector<float> source = values(rows * columns);
  backend().load_rows(*made, 0, {source.data(), DType::kFloat32, Shape{rows, columns}});
  return made;
}

struct Layer {
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<ExpertWeights> experts;

  Layer(int64_t hidden, int64_t inner, int64_t count) {
    for (int64_t e = 0; e < count; ++e) {
      for (int i = 0; i < 2; ++i) matrices.push_back(matrix(inner, hidden));
      matrices.push_back(matrix(hidden, inner));
      const size_t last = matrices.size();
      experts.push_back({matrices[last - 3].get(), matrices[last - 2].get(), matrices[last - 1].get()});
    }
  }
  size_t bytes() const {
    size_t total = 0;
    for (const auto& each : matrices) total += each->size_bytes();
    return total;
  }
};

std::vector<Layer> layers_of(int64_t hidden, int64_t inner, int64_t count) {
  std::vector<Layer> layers;
  do layers.emplace_back(hidden, inner, count);
  while (layers.size() * layers[0].bytes() < kColdBytes);
  return layers;
}

void experts(benchmark::State& state, const MoeShape& shape) {
  const int64_t rows = state.range(0);
  const std::vector<Layer> layers = layers_of(shape.hidden, shape.inner, shape.experts);
  const std::vector<float> x = values(rows * shape.hidden), logits = values(rows * shape.experts);
  std::vector<float> y(x.size());
  const auto input = backend().make_product_input(rows, shape.hidden, kBf16, kOne).value();
  const auto scratch =
      backend()
          .make_expert_scratch({.max_rows = rows, .top_k = shape.top_k, .hidden = shape.hidden, .inner = shape.inner},
                               kBf16, kOne)
          .value();
  backend().prepare(x.data(), rows, shape.hidden, *input);
  ExpertRoutes routes;
  routes.top_k = shape.top_k;
  size_t next = 0;
  for (auto _ : state) {
    backend().route(logits.data(), rows, shape.experts, true, routes);
    backend().experts({.x = input.get(), .routes = &routes, .experts = layers[next++ % layers.size()].experts},
                      *scratch, y.data());
    benchmark::DoNotOptimize(y.data());
  }
  const std::set<int32_t> used(routes.experts.begin(), routes.experts.end());
  state.counters["used"] = static_cast<double>(used.size());
  report(state, 6.0 * static_cast<double>(rows * shape.top_k * shape.hidden * shape.inner),
         static_cast<double>(layers[0].bytes() / static_cast<size_t>(shape.experts) * used.size()));
}

void dense(benchmark::State& state, const MoeShape& shape) {
  const int64_t rows = state.range(0), inner = shape.inner * shape.top_k;
  const std::vector<Layer> layers = layers_of(shape.hidden, inner, 1);
  const std::vector<float> x = values(rows * shape.hidden);
  std::vector<float> y(x.size());
  const auto input = backend().make_product_input(rows, shape.hidden, kBf16, kOne).value();
  const auto gated = backend().make_product_input(rows, inner, kBf16, kOne).value();
  backend().prepare(x.data(), rows, shape.hidden, *input);
  size_t next = 0;
  for (auto _ : state) {
    const ExpertWeights& mlp = layers[next++ % layers.size()].experts[0];
    backend().gated(*input, {.gate = mlp.gate, .up = mlp.up}, *gated);
    backend().linear(*gated, *mlp.down, nullptr, true, y.data(), shape.hidden);
    benchmark::DoNotOptimize(y.data());
  }
  report(state, 6.0 * static_cast<double>(rows * shape.hidden * inner), static_cast<double>(layers[0].bytes()));
}

void add_all() {
  for (const MoeShape& shape : kShapes)
    for (const bool mixture : {true, false}) {
      const std::string name = std::string(mixture ? "experts/" : "dense/") + shape.name;
      auto* bench = benchmark::RegisterBenchmark(
          name.c_str(), [shape, mixture](benchmark::State& state) { (mixture ? experts : dense)(state, shape); });
      for (const int64_t rows : {1, 8, 64, 256}) bench->Arg(rows)->ArgName("rows")->UseRealTime();
    }
}

}  // namespace
}  // namespace unspool::bench

int main(int argc, char** argv) {
  unspool::bench::add_all();
  return unspool::bench::run_benchmarks(argc, argv);
}
