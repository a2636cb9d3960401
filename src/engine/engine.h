// The engine: one thread that owns every request, and the step transaction (docs/architecture.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "request/engine_request.h"

namespace unspool {

class EngineControl;
class GrammarCompiler;
class MetricsRegistry;
class ModelMemory;
class Sampler;
class StepExecutor;
class ThreadPool;
class Tokenizer;

enum class SchedulingPolicy { kFcfs, kPriority };

struct EngineConfig {
  int max_num_seqs = 256;
  int max_num_batched_tokens = 256;
  int max_model_len = 0;
  int block_size = 16;
  int num_blocks = 0;
  bool enable_prefix_caching = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  int max_num_queued_reqs = 0;        // 0: no limit
  int64_t max_num_queued_tokens = 0;  // 0: no limit
  int64_t seed = 0;                   // --seed: where requests without a seed draw theirs from
  std::string model_name;             // metrics label
  bool log_stats = true;              // vllm: metrics
  bool enable_sleep_mode = false;     // sleep frees memory; without it, it only pauses
};

// Collaborators, given once. They outlive the engine.
struct EngineDependencies {
  StepExecutor* executor = nullptr;
  Sampler* sampler = nullptr;
  ThreadPool* pool = nullptr;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: no text (--skip-tokenizer-init, --tokens-only)
  MetricsRegistry* metrics = nullptr;
  ModelMemory* memory = nullptr;        // null: sleep frees nothing, and there is nothing to reload
  GrammarCompiler* grammars = nullptr;  // null: requests for structured outputs are refused
};

class Engine {
 public:
  Engine(EngineConfig config, EngineDependencies dependencies);
  ~Engine();  // aborts what is left and joins the thread

  // Thread-safe, returns at once. Everything the engine has to say comes through request.sink, refusals included
  // (an output with `error`, kUnavailable for a full queue); after shutdown() the refusal comes before this returns, on
  // the caller's thread. Returns the internal id.
  uint64_t add_request(EngineRequest request);
  // Whether a prompt of that many tokens can ever fit the cache (else the caller answers 400).
  bool fits(int prompt_tokens) const;
  // The client has gone: from the next step boundary on its sink is not called again. Unknown ids are ignored.
  void drop_request(uint64_t internal_id);
  // Ends requests with finish_reason abort and what they have; their sinks get the last output. Returns at once.
  void abort_requests(std::vector<std::string> external_ids);
  void abort_all();

  struct Stats {
    int running = 0;
    int waiting = 0;
    double kv_cache_usage = 0.0;  // 0..1
    int capacity_tokens = 0;
  };
  Stats stats() const;
  bool healthy() const;
  const EngineConfig& config() const;

  // Pause, sleep, weights (control.h). Lives as long as the engine.
  EngineControl& control();

  // Takes no more requests (they fail with kUnavailable), waits up to timeout_s for what runs, then aborts it
  // (clients get abort replies). What is paused is not waited for. Idempotent.
  void shutdown(double timeout_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unspool
