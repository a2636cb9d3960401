// Time per row of the sampler: what one draw costs beside the head that made its logits, and what the head's stats of
// their blocks cost (block_stats).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "backend/cpu/isa.h"
#include "sampling/sampler.h"

namespace unspool {
namespace {

constexpr int kSmolLm2 = 49'152;
constexpr int kQwen = 151'936;

// The choice that the server makes, UNSPOOL_ISA included.
const VocabKernels& kernels() {
  const char* forced = std::getenv("UNSPOOL_ISA");
  static const cpu::KernelTable* table = cpu::select_kernels(forced == nullptr ? "" : forced).value();
  return table->vocab;
}

// A language model's row: a bulk of N(0, 2) and a few tokens that stand out, so that top_p 0.95 keeps some tens.
std::vector<float> model_row(int vocab_size) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> bulk(0.0f, 2.0f);
  std::vector<float> row(vocab_size);
  for (float& x : row) x = bulk(random);
  for (int i = 0; i < 64; ++i) row[random() % vocab_size] = 18.0f - 0.1f * static_cast<float>(i);
  return row;
}

// Without structure: a nucleus of 0.9 is most of the vocabulary.
std::vector<float> flat_row(int vocab_size) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> bulk(0.0f, 0.5f);
  std::vector<float> row(vocab_size);
  for (float& x : row) x = bulk(random);
  return row;
}

void run_rows(benchmark::State& state, const std::vector<float>& row, const SamplingParams& params,
              const std::vector<int32_t>& prompt = {}) {
  Sampler sampler(kernels(), static_cast<int>(row.size()));
  sampler.reserve(1);
  std::vector<BlockStat> blocks(static_cast<size_t>(vocab_blocks(static_cast<int64_t>(row.size()))));
  kernels().block_stats(row.data(), static_cast<int64_t>(row.size()), blocks.data());
  SampleTask task = {row, &params, prompt, prompt, 7, 0, blocks};
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample(task, 0));
    ++task.position;
  }
}

// Each case runs at both vocabularies.
void add(const char* name, SamplingParams params, std::vector<float> (*make_row)(int) = model_row,
         int history_length = 0) {
  for (const int vocab_size : {kSmolLm2, kQwen}) {
    std::vector<int32_t> history(history_length);
    for (int i = 0; i < history_length; ++i) history[i] = i * 7 % vocab_size;
    benchmark::RegisterBenchmark((std::string(name) + "/" + std::to_string(vocab_size)).c_str(),
                                 [row = make_row(vocab_size), params, history](benchmark::State& state) {
                                   run_rows(state, row, params, history);
                                 })
        ->Unit(benchmark::kMicrosecond);
  }
}

void run_stats(benchmark::State& state, const std::vector<float>& row) {
  std::vector<BlockStat> blocks(static_cast<size_t>(vocab_blocks(static_cast<int64_t>(row.size()))));
  for (auto _ : state) {
    kernels().block_stats(row.data(), static_cast<int64_t>(row.size()), blocks.data());
    benchmark::DoNotOptimize(blocks.data());
  }
}

void add_all() {
  for (const int vocab_size : {kSmolLm2, kQwen})
    benchmark::RegisterBenchmark(("block_stats/" + std::to_string(vocab_size)).c_str(), [row = model_row(vocab_size)](
                                                                                            benchmark::State& state) {
      run_stats(state, row);
    })->Unit(benchmark::kMicrosecond);

  SamplingParams greedy;
  greedy.temperature = 0.0f;
  add("greedy", greedy);
  greedy.logprobs = 0;
  add("greedy_logprob", greedy);

  SamplingParams plain;
  add("draw", plain);
  plain.logprobs = 0;
  add("draw_logprob", plain);
  plain.logprobs = 5;
  add("draw_logprobs5", plain);
  plain.logprobs = 0;
  plain.temperature = 0.7f;
  add("temperature_logprob", plain);

  SamplingParams cut;
  cut.top_k = 50;
  add("top_k50", cut);
  cut.top_k = 1000;
  add("top_k1000", cut);
  cut.top_k = 0;
  cut.top_p = 0.95f;
  add("top_p95", cut);
  add("top_p95_flat", cut, flat_row);
  cut.min_p = 0.05f;
  cut.top_k = 50;
  cut.temperature = 0.8f;
  cut.logprobs = 0;
  cut.logprobs_mode = LogprobsMode::kProcessedLogprobs;
  cut.return_kept_mass = true;
  add("all_truncation_processed", cut);

  SamplingParams penalties;
  penalties.repetition_penalty = 1.1f;
  penalties.frequency_penalty = 0.2f;
  add("penalties_2x2000", penalties, model_row, 2000);
}

}  // namespace
}  // namespace unspool

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  unspool::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
