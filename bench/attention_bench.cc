// Attention through the backend, with the heads of SmolLM2-135M (9 and 3 of 64) and Qwen3-0.6B (16 and 8 of 128).
// Layers take turns, so that keys and values come from memory as in a step.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench_support.h"

namespace unspool::bench {
namespace {

struct Heads {
  const char* name;
  int heads;
  int64_t kv_heads, dim;
};
constexpr Heads kModels[] = {{"smollm2", 9, 3, 64}, {"qwen3", 16, 8, 128}};
constexpr int64_t kBlock = 16;
constexpr int64_t kColdBytes = int64_t{64} << 20;  // as in kernels_bench.cc

// `count` sequences of `tokens` in the step and `context` before it, of which the first `shared` are the same for all.
struct Batch {
  const char* name;
  int64_t count, tokens, context, shared;
};
constexpr Batch kBatches[] = {
    {"prefill", 1, 512, 0, 0},        {"prefill/later", 1, 512, 2048, 0},    {"decode/1x1024", 1, 1, 1024, 0},
    {"decode/1x4096", 1, 1, 4096, 0}, {"decode/16x1024", 16, 1, 1024, 0},    {"decode/64x1024", 64, 1, 1024, 0},
    {"shared/1x1024", 1, 1, 1024, 0}, {"shared/16x1024", 16, 1, 1024, 1024}, {"shared/64x1024", 64, 1, 1024, 1024},
};

void attention(benchmark::State& state, const Heads& heads, const Batch& batch, DType dtype) {
  const int64_t width = (heads.heads + 2 * heads.kv_heads) * heads.dim, rows = batch.count * batch.tokens;
  const int64_t own = (batch.context - batch.shared + batch.tokens + kBlock - 1) / kBlock;
  const int64_t blocks = batch.shared / kBlock + batch.count * own;
  KvCacheShape shape{.layers = 1,
                     .blocks = blocks,
                     .block_size = kBlock,
                     .kv_heads = heads.kv_heads,
                     .head_dim = heads.dim,
                     .dtype = dtype};
  shape.layers = std::max<int64_t>(1, kColdBytes / (blocks * shape.block_bytes()));
  const auto cache = backend().make_kv_cache(shape).value();
  std::vector<int32_t> all(static_cast<size_t>(blocks));
  std::iota(all.begin(), all.end(), 0);
  cache->zero_blocks(all);

  std::vector<std::vector<int32_t>> tables;
  std::vector<AttentionSequence> sequences;
  for (int64_t i = 0; i < batch.count; ++i) {
    auto& table = tables.emplace_back(all.begin(), all.begin() + batch.shared / kBlock);
    const auto first = all.begin() + batch.shared / kBlock + i * own;
    table.insert(table.end(), first, first + own);
  }
  for (int64_t i = 0; i < batch.count; ++i)
    sequences.push_back({static_cast<int>(i * batch.tokens), static_cast<int>(batch.tokens),
                         static_cast<int>(batch.context), tables[static_cast<size_t>(i)]});
  std::vector<float> qkv = values(rows * width), y(static_cast<size_t>(rows * heads.heads * heads.dim));
  const std::vector<float> cos(static_cast<size_t>(rows * heads.dim / 2), 1.0f), sin(cos.size(), 0.0f);
  std::vector<uint8_t> non_finite(sequences.size());
  AttentionArgs args{.qkv = qkv.data(),
                     .heads = heads.heads,
                     .cos = cos.data(),
                     .sin = sin.data(),
                     .rotary_dim = heads.dim,
                     .scale = 1.0f / std::sqrt(static_cast<float>(heads.dim)),
                     .sequences = sequences,
                     .non_finite = non_finite};
  for (auto _ : state) {
    backend().attention(args, *cache, MatmulPrecision::kBf16, y.data());
    args.layer = (args.layer + 1) % static_cast<int>(shape.layers);
  }
  const auto tokens = static_cast<double>(batch.tokens);
  const double seen = static_cast<double>(rows) * (static_cast<double>(batch.context) + (tokens + 1) / 2);
  const auto keys = static_cast<double>(batch.shared + batch.count * (batch.context - batch.shared + batch.tokens));
  report(state, 4.0 * static_cast<double>(heads.heads * heads.dim) * seen,
         2.0 * keys * static_cast<double>(heads.kv_heads * heads.dim * dtype_size(dtype)), dtype == DType::kBFloat16);
}

void add_all() {
  for (const Heads& heads : kModels)
    for (const Batch& batch : kBatches)
      for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
        const std::string name = std::string(heads.name) + "/" + batch.name + "/" + std::string(torch_name(dtype));
        benchmark::RegisterBenchmark(name.c_str(), [&heads, &batch, dtype](benchmark::State& state) {
          attention(state, heads, batch, dtype);
        })->UseRealTime();
      }
}

}  // namespace
}  // namespace unspool::bench

int main(int argc, char** argv) {
  unspool::bench::add_all();
  return unspool::bench::run_benchmarks(argc, argv);
}
