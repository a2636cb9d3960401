// The engine without its thread: all requests, and the step transaction. One thread calls it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/engine_state.h"
#include "engine/experts_log.h"
#include "engine/grammar_masks.h"
#include "engine/output_processor.h"
#include "engine/step_sampler.h"
#include "kv_cache/kv_cache_manager.h"
#include "request/request.h"
#include "scheduler/scheduler.h"

namespace unspool {

// How busy the engine is. Written by its thread before it hands out the outputs that go with it, read by any.
struct EngineLoad {
  std::atomic<int> running = 0;  // sequences
  std::atomic<int> waiting = 0;
  std::atomic<double> kv_cache_usage = 0.0;
};

class EngineCore {
 public:
  EngineCore(EngineConfig config, EngineDependencies dependencies, uint64_t prefix_hash_seed);

  // How others reach the thread that calls this core; false where nobody listens any more. Empty: grammars that are
  // ready from now on are not told. From any thread.
  using Post = std::function<bool(std::function<void(EngineCore&)>)>;
  void set_post(Post post);

  const EngineConfig& config() const { return config_; }
  bool fits(int prompt_tokens) const { return kv_cache_.blocks_for(prompt_tokens) <= kv_cache_.num_blocks(); }

  // Between steps. A request that is refused gets an output with the error.
  void add(uint64_t id, EngineRequest request);
  void drop(uint64_t id);
  void abort(const std::vector<std::string>& external_ids);
  void abort_all();
  // Requests as /abort_requests counts them: samples, and the request they belong to where there are several.
  int num_abortable() const;

  // For the control plane, between steps. Whoever changes the state calls state_changed() after.
  EngineState& state() { return state_; }
  const EngineState& state() const { return state_; }
  void state_changed();
  int num_compiling() const { return num_compiling_; }          // grammars that were asked for; who asked may be gone
  int num_unready() const { return scheduler_.num_unready(); }  // requests that wait for theirs
  int num_in_flight() const { return scheduler_.num_in_flight(); }
  bool holds_mixed_weights() const { return scheduler_.holds_mixed_weights(); }
  // Running requests give up their keys and values, and nothing computed so far can be hit again.
  void clear_cache();
  // The same for prefixes alone; false, and nothing done, while a request holds blocks.
  bool reset_prefix_cache();
  // What was computed so far can never be hit again; who runs goes on with it.
  void weights_changed();

  // Plans, computes and commits one step and hands out what came of it. A fault on the way fails the requests of the
  // step. Whatever this throws is a fault of the accounting itself: fail_all() is all that can be done then.
  void step();
  bool has_work() const { return !state_.failed() && scheduler_.has_work(); }

  // Ends every request with an internal error, and refuses all that come. Does not throw.
  void fail_all() noexcept;

  const EngineLoad& load() const { return load_; }
  size_t num_requests() const { return requests_.size(); }

  // Violated invariants between steps, empty when all is well.
  std::vector<std::string> validate() const;

 private:
  // A request with what it is about to say. Held by pointer: samples refer to their request.
  struct Live {
    explicit Live(uint64_t id, EngineRequest spec, uint64_t seed, ScheduleKey key)
        : request(id, std::move(spec), seed, key) {}
    Request request;
    std::vector<OutputProcessor> processors;  // by sample
    std::shared_ptr<const CompiledGrammar> grammar;
    std::vector<std::shared_ptr<Constraint>> constraints;  // by sample, once the grammar is there
    std::vector<size_t> num_followed;  // tokens of each sample's output that its constraint has seen
    RequestOutput output;
    bool touched = false;  // listed in touched_
    int num_unfinished = 0;
  };

  static void deliver(const OutputSink& sink, RequestOutput output) noexcept;
  std::optional<Error> refusal(const EngineRequest& request);
  uint64_t seed_for(const SamplingParams& params);
  void ask_for_grammar(Live& live);
  void take_grammar(uint64_t id, const Result<std::shared_ptr<const CompiledGrammar>>& compiled);
  void add_constraints(Live& live);
  void fill_masks(const StepPlan& plan);
  bool compute(const StepPlan& plan);
  void fail_step(const char* what);
  void commit(const StepPlan& plan, double step_started_s);
  void commit_sequence(int i, const ScheduledSequence& computed, double now_s);
  void append_token(Live& live, Sequence& sequence, SampleResult& result, double now_s);
  void finish(Live& live, Sequence& sequence, const Stop& stop, SequenceDelta& delta);
  void finish_without_token(Live& live, Sequence& sequence, FinishReason reason);
  void abort(Live& live);
  void fail(Live& live, Error error);
  void remove_sequences(Live& live, bool forget_output = false);
  Live& live_of(const Sequence& sequence) { return *requests_.at(sequence.request.id()); }
  void touch(Live& live);
  void emit();
  void forget(uint64_t id);
  void publish_load(int running, int waiting, double kv_cache_usage);
  void publish_load();

  EngineConfig config_;
  EngineDependencies dependencies_;
  KvCacheManager kv_cache_;
  Scheduler scheduler_;
  StepSampler sampler_;
  ExpertsLog experts_log_;
  GrammarMasks grammar_masks_;
  EngineMetrics metrics_;
  EngineLoad load_;
  EngineState state_;

  std::unordered_map<uint64_t, std::unique_ptr<Live>> requests_;
  std::unordered_multimap<std::string, uint64_t> by_external_id_;
  // Of the step: the constrained rows, and of each sequence its mask or why there is none.
  std::vector<GrammarMasks::Row> mask_rows_;
  std::vector<std::span<const uint32_t>> masks_;
  std::vector<std::optional<Error>> mask_errors_;
  struct Returns;
  std::shared_ptr<Returns> returns_;
  int num_compiling_ = 0;
  std::vector<Live*> touched_;  // have an output to hand out
  int64_t num_arrived_ = 0;
  uint64_t num_seeds_drawn_ = 0;
};

}  // namespace unspool
