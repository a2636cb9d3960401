// What a step costs besides the model and the sampler's vocabulary: plan, batch, commit, outputs, for an executor that
// computes nothing and a vocabulary of 16.
#include <benchmark/benchmark.h>

#include "backend/cpu/isa.h"
#include "engine/engine_core.h"
#include "runner/step_executor.h"
#include "threading/thread_pool.h"

namespace unspool {
namespace {

constexpr int kVocab = 16;

class IdleExecutor final : public StepExecutor {
 public:
  int vocab_size() const override { return kVocab; }
  int max_logits_rows() const override { return 96; }
  void execute(const StepPlan& plan) override { benchmark::DoNotOptimize(plan.sequences.data()); }
  std::span<const int> non_finite_sequences() const override { return {}; }
  std::span<float> logits(int, int count, int64_t* stride) override {
    *stride = kVocab;
    return std::span(logits_).first(static_cast<size_t>(count * kVocab));
  }

 private:
  std::vector<float> logits_ = std::vector<float>(96 * kVocab, 1.0f);
};

// range: sequences that decode, each a request of its own or samples of requests of 8, with `context` tokens before.
void decode_step(benchmark::State& state) {
  const auto sequences = static_cast<int>(state.range(0)), samples = static_cast<int>(state.range(1));
  constexpr int kContext = 1024, kSteps = 500;
  EngineConfig config;
  config.max_num_batched_tokens = 8192;
  config.max_model_len = 4096;
  config.num_blocks = sequences * (kContext + kSteps) / config.block_size * 2;
  config.model_name = "m";
  IdleExecutor executor;
  ThreadPool pool(1);
  MetricsRegistry metrics;
  Sampler sampler(cpu::select_kernels("").value()->vocab, kVocab);
  EngineCore core(config, {&executor, &sampler, &pool, nullptr, &metrics, nullptr}, 1);
  uint64_t id = 0;
  const auto decodes = [&] { return core.load().running.load() == sequences && core.load().waiting.load() == 0; };
  const auto refill = [&] {
    core.abort_all();
    for (int i = 0; i < sequences / samples; ++i) {
      EngineRequest request;
      request.prompt_token_ids.assign(kContext, static_cast<int32_t>(++id % kVocab));
      request.cache_salt = std::to_string(id);
      request.params.n = samples;
      request.params.max_tokens = kSteps + 100;
      request.params.seed = 1;
      request.params.ignore_eos = true;
      request.params.logprobs = 0;
      request.sink = [](RequestOutput output) { benchmark::DoNotOptimize(output.deltas.data()); };
      core.add(id, std::move(request));
    }
    while (!decodes()) core.step();
    core.step();  // the last prompt's chunk may have been in the step before
  };
  int left = 0;
  for (auto _ : state) {
    if (left-- == 0) {
      state.PauseTiming();
      refill();
      left = kSteps - 100;
      state.ResumeTiming();
    }
    core.step();
  }
  state.counters["us/row"] = benchmark::Counter(static_cast<double>(state.iterations()) * sequences / 1e6,
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(decode_step)
    ->ArgNames({"sequences", "samples"})
    ->Args({1, 1})
    ->Args({16, 1})
    ->Args({64, 1})
    ->Args({64, 8})
    ->Args({256, 8})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace unspool

BENCHMARK_MAIN();
