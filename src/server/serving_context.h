// Everything that serves, built once from the options: tokenizer, model, sampler, engine, and what the protocol must
// know.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/timed_backend.h"
#include "base/result.h"
#include "engine/engine.h"
#include "grammar/grammar_compiler.h"
#include "layers/weight_staging.h"
#include "metrics/metrics.h"
#include "protocol/serving_config.h"
#include "runner/model_memory.h"
#include "runner/step_executor.h"
#include "sampling/sampler.h"
#include "server/options.h"
#include "threading/thread_pool.h"

namespace unspool {

// Members are destroyed last to first: the engine before what it uses.
struct ServingContext {
  ServeOptions options;
  ServingConfig protocol;
  MetricsRegistry metrics;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<StepExecutor> executor;
  // Of weight updates, beside generation; null where no transfer is configured.
  std::unique_ptr<ThreadPool> transfer_pool;
  std::unique_ptr<Backend> transfer_backend;
  std::unique_ptr<WeightStaging> staging;
  std::unique_ptr<ModelMemory> memory;
  std::unique_ptr<Sampler> sampler;
  std::unique_ptr<GrammarCompiler> grammars;  // null where there is no grammar engine
  std::unique_ptr<Engine> engine;

  // For the summary at start.
  std::string grammar_directory;
  std::string dtype;  // as torch names it
  DType served_dtype = DType::kBFloat16;
  std::vector<DummyTensor> dummy_tensors;  // what --load-format dummy made; else empty
  std::string instruction_set;
  size_t weight_bytes = 0;
  int64_t kv_cache_bytes = 0;
  double started_s = 0;
};

// With `times`, which outlives the context, the backend keeps the time of its operations there.
Result<std::unique_ptr<ServingContext>> build_serving_context(const ServeOptions& options,
                                                              OperationTimes* times = nullptr);

// One line each: model, numerics, memory, seconds.
void log_start_summary(const ServingContext& context);

}  // namespace unspool
