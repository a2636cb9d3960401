// Weight updates at SmolLM2-135M's shapes, from memory to packed weights: GB/s of what comes in, and how long the
// commit keeps the engine's thread. UNSPOOL_THREADS is 2 where unset.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/clock.h"
#include "layers/weight_staging.h"

namespace unspool {
namespace {

constexpr int64_t kHidden = 576, kInner = 1536, kKv = 192, kVocab = 49'152, kLayers = 30;

struct Model {
  Model() {
    (void)weights.add_matrix({{"embed", kVocab}}, kHidden);
    for (int64_t i = 0; i < kLayers; ++i) {
      const auto name = [i](const char* what) { return fmt::format("{}.{}", i, what); };
      (void)weights.add_matrix({{name("q"), kHidden}, {name("k"), kKv}, {name("v"), kKv}}, kHidden);
      (void)weights.add_matrix({{name("o"), kHidden}}, kHidden);
      (void)weights.add_matrix({{name("gate"), kInner}}, kHidden);
      (void)weights.add_matrix({{name("up"), kInner}}, kHidden);
      (void)weights.add_matrix({{name("down"), kHidden}}, kInner);
      weights.add_vector({{name("norm"), kHidden}});
      weights.add_vector({{name("post_norm"), kHidden}});
    }
    staging = std::make_unique<WeightStaging>(weights, *backend, WeightUpdateMode::kDoubleBuffer);
  }

  static int threads() {
    const char* text = std::getenv("UNSPOOL_THREADS");
    return text == nullptr ? 2 : std::atoi(text);
  }
  void begin() { staging->begin(++session); }
  double commit_s() {
    const double start_s = monotonic_seconds();
    if (!staging->commit().ok()) std::abort();
    return monotonic_seconds() - start_s;
  }

  ThreadPool pool{threads()};
  std::unique_ptr<Backend> backend = cpu::CpuBackend::create(pool, "").value();
  WeightSet weights{*backend, DType::kBFloat16};
  std::unique_ptr<WeightStaging> staging;
  uint64_t session = 0;
};

// What an update carries, one tensor behind the other.
struct Update {
  std::vector<TensorSpec> specs;
  std::vector<std::byte> bytes;
};

Update whole(const WeightSet& weights, DType dtype) {
  Update update;
  size_t size = 0;
  for (const Parameter& parameter : weights.parameters()) {
    update.specs.push_back({.name = parameter.name, .dtype = dtype, .shape = parameter.shape, .num_updates = {}});
    size += update.specs.back().size_bytes();
  }
  update.bytes.assign(size, std::byte{0x3c});
  return update;
}

// One element in `every`.
Update sparse(const WeightSet& weights, uint32_t every) {
  Update update;
  std::mt19937 random(1);
  for (const Parameter& parameter : weights.parameters()) {
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < parameter.shape.num_elements(); ++i)
      if (random() % every == 0) indices.push_back(i);
    update.specs.push_back({.name = parameter.name,
                            .dtype = DType::kBFloat16,
                            .shape = parameter.shape,
                            .num_updates = static_cast<int64_t>(indices.size())});
    const size_t at = update.bytes.size();
    update.bytes.resize(at + update.specs.back().size_bytes(), std::byte{0x3c});
    std::memcpy(update.bytes.data() + at, indices.data(), indices.size() * sizeof(int32_t));
  }
  return update;
}

void run(benchmark::State& state, Model& model, const Update& update) {
  double commits_s = 0, longest_s = 0;
  const auto put = [&] {
    model.begin();
    size_t at = 0;
    for (const TensorSpec& spec : update.specs) {
      if (!model.staging->put(model.session, spec, std::span(update.bytes).subspan(at, spec.size_bytes())).ok())
        std::abort();
      at += spec.size_bytes();
    }
    return model.commit_s();
  };
  for (int copy = 0; copy < 2; ++copy) put();  // pages that are touched for the first time: 0.2 s
  for (auto _ : state) {
    const double commit_s = put();
    commits_s += commit_s;
    longest_s = std::max(longest_s, commit_s);
  }
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(update.bytes.size()) * rounds * 1e-9, benchmark::Counter::kIsRate);
  state.counters["commit_ms"] = commits_s / rounds * 1e3;
  state.counters["longest_commit_ms"] = longest_s * 1e3;
}

void update_whole(benchmark::State& state, DType dtype) {
  Model model;
  run(state, model, whole(model.weights, dtype));
}

void update_sparse(benchmark::State& state) {
  Model model;
  run(state, model, sparse(model.weights, static_cast<uint32_t>(state.range(0))));
}

BENCHMARK_CAPTURE(update_whole, bf16, DType::kBFloat16)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(update_whole, f32, DType::kFloat32)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(update_sparse)->ArgName("one_in")->Arg(100)->Arg(10)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace unspool

BENCHMARK_MAIN();
