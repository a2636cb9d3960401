// The engine's part of /metrics: vLLM's names, labels and buckets, and what vLLM has no name for under unspool:.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "metrics/metrics.h"
#include "request/request.h"
#include "scheduler/scheduler.h"

namespace unspool {

// All methods do nothing without a registry. Gauges are set whenever the engine's state may have changed.
class EngineMetrics {
 public:
  EngineMetrics(MetricsRegistry* registry, const EngineConfig& config);

  // `deferred`: who waits does not wait for room.
  void set_load(int running, int waiting, double kv_cache_usage, bool deferred);
  void add_scheduled(const Scheduler::Counters& counters);
  // A step of that many tokens, prompt and drawn ones, of so many sequences; the seconds are from its plan on.
  void observe_step(int num_tokens, int num_sequences, double seconds);
  // The first sample has computed the prompt.
  void add_prompt(const Request& request);
  // A token at `now_s`; the sequence's times are those before it.
  void add_token(const Sequence& sequence, double now_s);
  // A sample has ended. kError counts once, with the request.
  void add_finished(const Sequence& sequence, FinishReason reason, double now_s);
  void add_finished_request(Request& request);
  enum class Rejection { kRequests, kTokens };
  void add_rejection(Rejection reason);

 private:
  void declare_counters(MetricsRegistry& registry);
  void declare_gauges(MetricsRegistry& registry, const EngineConfig& config);
  void declare_histograms(MetricsRegistry& registry, const EngineConfig& config);

  bool enabled_ = false;
  MetricLabels labels_;

  Gauge* running_ = nullptr;
  Gauge* waiting_ = nullptr;
  Gauge* waiting_for_capacity_ = nullptr;
  Gauge* waiting_deferred_ = nullptr;
  Gauge* kv_cache_usage_ = nullptr;

  Counter* prefix_queries_ = nullptr;
  Counter* prefix_hits_ = nullptr;
  Counter* preemptions_ = nullptr;
  Counter* prompt_tokens_ = nullptr;
  Counter* prompt_tokens_computed_ = nullptr;
  Counter* prompt_tokens_hit_ = nullptr;
  Counter* prompt_tokens_cached_ = nullptr;
  Counter* prompt_tokens_cached_on_device_ = nullptr;
  Counter* generation_tokens_ = nullptr;
  std::array<Counter*, 5> finished_{};  // by FinishReason
  std::array<Counter*, 2> rejections_{};

  Histogram* time_to_first_token_ = nullptr;
  Histogram* inter_token_latency_ = nullptr;
  Histogram* time_per_output_token_ = nullptr;
  Histogram* e2e_latency_ = nullptr;
  Histogram* queue_time_ = nullptr;
  Histogram* inference_time_ = nullptr;
  Histogram* prefill_time_ = nullptr;
  Histogram* decode_time_ = nullptr;
  Histogram* request_prompt_tokens_ = nullptr;
  Histogram* request_generation_tokens_ = nullptr;
  Histogram* request_max_generation_tokens_ = nullptr;
  Histogram* request_max_tokens_ = nullptr;
  Histogram* request_prefill_computed_ = nullptr;
  Histogram* iteration_tokens_ = nullptr;
  Histogram* step_time_ = nullptr;
  Histogram* step_sequences_ = nullptr;
  Histogram* request_n_ = nullptr;
  Histogram* request_preemptions_ = nullptr;
};

// 1, 2, 5, 10, 20, .. up to `limit`.
std::vector<double> one_two_five_buckets(int limit);

}  // namespace unspool
