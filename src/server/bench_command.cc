#include "server/bench_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>

#include "backend/cpu/isa.h"
#include "backend/cpu/machine_limits.h"
#include "backend/timed_backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_core.h"
#include "server/options.h"
#include "server/serving_context.h"

namespace unspool {
namespace {

constexpr const char* kHelp =
    "unspool bench MODEL [--profile] [flags of serve]\n\n"
    "Runs the engine without HTTP: one stream, groups of samples, long prompts, scored prompts. With --profile the "
    "time\n"
    "of every kind of operation is printed, beside what this machine gives at best.\n";

// Requests that start together.
struct Case {
  const char* name;
  int requests, samples, prompt_tokens, generated;
  bool scored;
};
// As in bench/rollout.py, and shorter: the operations of a step are the same.
constexpr Case kCases[] = {
    {"single", 1, 1, 64, 64, false},   {"group", 8, 8, 256, 32, false}, {"shared", 1, 16, 1024, 32, false},
    {"prefill", 2, 1, 1536, 1, false}, {"score", 4, 1, 512, 1, true},
};

struct Run {
  int steps = 0;
  double seconds = 0;
  int tokens = 0;  // of prompts and samples
};

// What bench has in the hand: the context's own engine stays idle, its executor is stepped here.
class Bench {
 public:
  Bench(ServingContext& context, OperationTimes& times)
      : context_(context),
        times_(times),
        core_(context.engine->config(),
              {context.executor.get(), context.sampler.get(), context.pool.get(), nullptr, nullptr, nullptr}, 1) {}

  Run run(const Case& c) {
    times_.clear();
    for (int i = 0; i < c.requests; ++i) core_.add(++last_id_, request(c));
    Run run{.tokens = c.requests * (c.prompt_tokens + c.samples * c.generated)};
    const double started = monotonic_seconds();
    for (; core_.has_work(); ++run.steps) core_.step();
    run.seconds = monotonic_seconds() - started;
    return run;
  }

 private:
  // Random ids, new ones each time: nothing is found in the prefix cache.
  EngineRequest request(const Case& c) {
    EngineRequest request;
    std::uniform_int_distribution<int32_t> ids(0, context_.protocol.vocab_size - 1);
    for (int i = 0; i < c.prompt_tokens; ++i) request.prompt_token_ids.push_back(ids(random_));
    request.params.n = c.samples;
    request.params.max_tokens = c.generated;
    request.params.ignore_eos = true;
    request.params.detokenize = false;
    request.params.seed = 1;
    request.params.logprobs = 0;
    if (c.scored) request.params.prompt_logprobs = 0;
    request.arrival_s = monotonic_seconds();
    return request;
  }

  ServingContext& context_;
  OperationTimes& times_;
  EngineCore core_;
  std::mt19937 random_{1};
  uint64_t last_id_ = 0;
};

void print_profile(const Run& run, const OperationTimes& times, const cpu::MachineLimits& limits, bool bf16) {
  const double products = bf16 ? limits.bf16_operations : limits.f32_operations;
  fmt::print("  {:<28}{:>8}{:>10}{:>8}{:>10}{:>8}{:>12}{:>10}\n", "operation", "calls", "ms/step", "time", "GFLOP/s",
             "GB/s", "of products", "of reads");
  double operations_s = 0;
  const auto line = [&](const std::string& name, int64_t calls, double seconds, const std::string& rates) {
    fmt::print("  {:<28}{:>8}{:>10.3f}{:>7.1f}%{}\n", name, calls, seconds / run.steps * 1e3,
               seconds / run.seconds * 100, rates);
  };
  std::vector<std::pair<OperationKey, OperationTime>> ordered(times.begin(), times.end());
  std::sort(ordered.begin(), ordered.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [key, time] : ordered) {
    operations_s += time.seconds;
    const double done = time.operations / time.seconds, read = time.bytes / time.seconds;
    line(key.rows > 0 ? fmt::format("{} [{}, {}]", key.name, key.rows, key.columns) : key.name, time.calls,
         time.seconds,
         done > 0 ? fmt::format("{:>10.1f}{:>8.2f}{:>11.0f}%{:>9.0f}%", done / 1e9, read / 1e9, done / products * 100,
                                read / limits.read_bytes * 100)
                  : "");
  }
  line("sampling, plan and commit", run.steps, run.seconds - operations_s, "");
}

int fail(const std::string& message, int status) {
  fmt::print(stderr, "unspool bench: {}\n", message);
  return status;
}

int bench(const ServeOptions& options, bool profile) {
  OperationTimes times;
  auto built = build_serving_context(options, profile ? &times : nullptr);
  if (!built.ok()) return fail(built.error().message, 1);
  ServingContext& context = **built;

  const char* isa = std::getenv("UNSPOOL_ISA");
  const cpu::KernelTable* kernels = cpu::select_kernels(isa == nullptr ? "" : isa).value();
  const cpu::MachineLimits limits = cpu::measure_limits(*context.pool, *kernels);
  fmt::print("{} threads, {}: {:.1f} bf16 GFLOP/s, {:.1f} float32 GFLOP/s, reads {:.1f} GB/s\n", context.pool->size(),
             context.instruction_set, limits.bf16_operations / 1e9, limits.f32_operations / 1e9,
             limits.read_bytes / 1e9);

  Bench bench(context, times);
  for (const Case& c : kCases) {
    if (c.prompt_tokens + c.generated > context.protocol.max_model_len) continue;
    bench.run(c);  // warms up: the cache's pages, scratch
    const Run run = bench.run(c);
    fmt::print("\n{}: {} x {} tokens, {} samples of {}: {} steps of {:.2f} ms, {:.1f} tok/s\n", c.name, c.requests,
               c.prompt_tokens, c.samples, c.generated, run.steps, run.seconds / run.steps * 1e3,
               run.tokens / run.seconds);
    if (profile) print_profile(run, times, limits, context.served_dtype == DType::kBFloat16);
  }
  return 0;
}

}  // namespace

int bench_command(std::vector<std::string> words) {
  const auto asks_for_help = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(words.begin(), words.end(), asks_for_help)) {
    fmt::print("{}", kHelp);
    return 0;
  }
  const bool profile = std::erase(words, "--profile") > 0;
  try {
    auto options = parse_serve_options(words, [](const char* name) -> const char* { return std::getenv(name); });
    if (!options.ok()) return fail(options.error().message, 2);
    options->skip_tokenizer = true;
    set_log_level(LogLevel::kWarning);
    return bench(*options, profile);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

}  // namespace unspool
