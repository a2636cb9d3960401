#include "engine/engine_metrics.h"

#include <algorithm>

namespace unspool {

namespace {

const std::vector<double> kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                                1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const std::vector<double> kTokenGapBuckets = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                              .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const std::vector<double> kLatencyBuckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                             30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
// From a tiny model's step to a chunk of 8,192 tokens of a large one.
const std::vector<double> kStepTimeBuckets = {.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10};
const std::vector<double> kIterationBuckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

MetricLabels with(MetricLabels labels, const std::string& name, const std::string& value) {
  labels[name] = value;
  return labels;
}

}  // namespace

std::vector<double> one_two_five_buckets(int limit) {
  std::vector<double> buckets;
  for (int64_t decade = 1; decade <= limit; decade *= 10) {
    for (const int64_t factor : {1, 2, 5}) {
      if (factor * decade <= limit) buckets.push_back(static_cast<double>(factor * decade));
    }
  }
  if (buckets.empty()) buckets.push_back(1);
  return buckets;
}

EngineMetrics::EngineMetrics(MetricsRegistry* registry, const EngineConfig& config)
    : enabled_(registry != nullptr && config.log_stats), labels_{{"model_name", config.model_name}, {"engine", "0"}} {
  if (!enabled_) return;
  declare_gauges(*registry, config);
  declare_counters(*registry);
  declare_histograms(*registry, config);
}

void EngineMetrics::declare_gauges(MetricsRegistry& registry, const EngineConfig& config) {
  running_ = &registry.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", labels_);
  waiting_ = &registry.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", labels_);
  const auto by_reason = [&](const char* reason) {
    return &registry.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason.",
                           with(labels_, "reason", reason));
  };
  waiting_for_capacity_ = by_reason("capacity");
  waiting_deferred_ = by_reason("deferred");
  kv_cache_usage_ = &registry.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", labels_);
  registry
      .gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig",
             {{"block_size", std::to_string(config.block_size)},
              {"num_gpu_blocks", std::to_string(config.num_blocks)},
              {"enable_prefix_caching", config.enable_prefix_caching ? "True" : "False"},
              {"prefix_caching_hash_algo", "xxhash"},
              {"engine", "0"}})
      .set(1);
  set_load(0, 0, 0.0, false);
}

void EngineMetrics::declare_counters(MetricsRegistry& registry) {
  const auto counter = [&](const char* name, const char* help) { return &registry.counter(name, help, labels_); };
  prefix_queries_ =
      counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.");
  prefix_hits_ = counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.");
  counter("vllm:external_prefix_cache_queries_total", "External prefix cache queries from KV connectors, in tokens.");
  counter("vllm:external_prefix_cache_hits_total", "External prefix cache hits from KV connectors, in tokens.");
  counter("vllm:mm_cache_queries_total", "Multi-modal cache queries, in terms of number of queried items.");
  counter("vllm:mm_cache_hits_total", "Multi-modal cache hits, in terms of number of cached items.");
  preemptions_ = counter("vllm:num_preemptions_total", "Cumulative number of preemptions from the engine.");
  prompt_tokens_ = counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.");
  prompt_tokens_cached_ = counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens.");
  generation_tokens_ = counter("vllm:generation_tokens_total", "Number of generation tokens processed.");
  const auto by_source = [&](const char* source) {
    return &registry.counter("vllm:prompt_tokens_by_source_total", "Number of prompt tokens by source.",
                             with(labels_, "source", source));
  };
  prompt_tokens_computed_ = by_source("local_compute");
  prompt_tokens_hit_ = by_source("local_cache_hit");
  by_source("external_kv_transfer");
  prompt_tokens_cached_on_device_ =
      &registry.counter("vllm:prompt_tokens_cached_by_source_total", "Number of cached prompt tokens by source.",
                        with(labels_, "source", "device"));
  for (const auto reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kAbort, FinishReason::kRepetition,
                            FinishReason::kError}) {
    finished_[static_cast<size_t>(reason)] =
        &registry.counter("vllm:request_success_total", "Count of successfully processed requests.",
                          with(labels_, "finished_reason", to_string(reason)));
  }
  const char* reasons[] = {"max_num_queued_reqs", "max_num_queued_tokens"};
  for (size_t i = 0; i < rejections_.size(); ++i) {
    rejections_[i] = &registry.counter("vllm:admission_rejections_total", "Count of requests refused at admission.",
                                       {{"model_name", labels_["model_name"]}, {"reason", reasons[i]}});
  }
}

void EngineMetrics::declare_histograms(MetricsRegistry& registry, const EngineConfig& config) {
  const auto histogram = [&](const char* name, const char* help, const std::vector<double>& buckets) {
    return &registry.histogram(name, help, labels_, buckets);
  };
  time_to_first_token_ =
      histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", kFirstTokenBuckets);
  inter_token_latency_ =
      histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", kTokenGapBuckets);
  time_per_output_token_ = histogram("vllm:request_time_per_output_token_seconds",
                                     "Histogram of time per output token in seconds per request.", kTokenGapBuckets);
  e2e_latency_ =
      histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", kLatencyBuckets);
  queue_time_ = histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.",
                          kLatencyBuckets);
  inference_time_ = histogram("vllm:request_inference_time_seconds",
                              "Histogram of time spent in RUNNING phase for request.", kLatencyBuckets);
  prefill_time_ = histogram("vllm:request_prefill_time_seconds",
                            "Histogram of time spent in PREFILL phase for request.", kLatencyBuckets);
  decode_time_ = histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.",
                           kLatencyBuckets);
  const auto token_buckets = one_two_five_buckets(config.max_model_len);
  request_prompt_tokens_ =
      histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", token_buckets);
  request_generation_tokens_ =
      histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", token_buckets);
  request_max_generation_tokens_ =
      histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.",
                token_buckets);
  request_max_tokens_ =
      histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", token_buckets);
  request_prefill_computed_ =
      histogram("vllm:request_prefill_kv_computed_tokens",
                "Histogram of new KV tokens computed during prefill (excluding cached tokens).", token_buckets);
  iteration_tokens_ =
      histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", kIterationBuckets);
  step_time_ =
      histogram("unspool:step_time_seconds", "Histogram of the time of an engine step in seconds.", kStepTimeBuckets);
  step_sequences_ = histogram("unspool:step_sequences", "Histogram of the number of sequences in an engine step.",
                              one_two_five_buckets(config.max_num_seqs));
  request_n_ = histogram("vllm:request_params_n", "Histogram of the n request parameter.", {1, 2, 5, 10, 20});
  request_preemptions_ =
      histogram("vllm:request_num_preemptions", "Histogram of preemptions per request.", {1, 2, 3, 4, 5, 10, 20});
}

void EngineMetrics::set_load(int running, int waiting, double kv_cache_usage, bool deferred) {
  if (!enabled_) return;
  running_->set(running);
  waiting_->set(waiting);
  waiting_for_capacity_->set(deferred ? 0 : waiting);
  waiting_deferred_->set(deferred ? waiting : 0);
  kv_cache_usage_->set(kv_cache_usage);
}

void EngineMetrics::add_scheduled(const Scheduler::Counters& counters) {
  if (!enabled_) return;
  if (counters.preemptions > 0) preemptions_->add(static_cast<double>(counters.preemptions));
  if (counters.prefix_queries > 0) prefix_queries_->add(static_cast<double>(counters.prefix_queries));
  if (counters.prefix_hits > 0) prefix_hits_->add(static_cast<double>(counters.prefix_hits));
}

void EngineMetrics::observe_step(int num_tokens, int num_sequences, double seconds) {
  if (!enabled_) return;
  iteration_tokens_->observe(num_tokens);
  step_time_->observe(seconds);
  step_sequences_->observe(num_sequences);
}

void EngineMetrics::add_prompt(const Request& request) {
  if (!enabled_) return;
  const int cached = request.num_cached_tokens;
  prompt_tokens_->add(request.prompt_length());
  prompt_tokens_computed_->add(request.prompt_length() - cached);
  prompt_tokens_hit_->add(cached);
  prompt_tokens_cached_->add(cached);
  prompt_tokens_cached_on_device_->add(cached);
}

void EngineMetrics::add_token(const Sequence& sequence, double now_s) {
  if (!enabled_) return;
  generation_tokens_->add(1);
  if (sequence.times.last_token_s > 0.0) {
    inter_token_latency_->observe(now_s - sequence.times.last_token_s);
  } else {
    time_to_first_token_->observe(now_s - sequence.request.spec().arrival_s);
  }
}

void EngineMetrics::add_finished(const Sequence& sequence, FinishReason reason, double now_s) {
  if (!enabled_) return;
  finished_[static_cast<size_t>(reason)]->add(1);
  const Request& request = sequence.request;
  const SequenceTimes& times = sequence.times;
  const auto num_output = sequence.output_token_ids.size();
  e2e_latency_->observe(now_s - request.spec().arrival_s);
  request_prompt_tokens_->observe(request.prompt_length());
  request_generation_tokens_->observe(static_cast<double>(num_output));
  request_max_tokens_->observe(request.params().max_tokens);
  request_preemptions_->observe(sequence.num_preemptions);
  if (times.first_scheduled_s > 0.0) queue_time_->observe(times.first_scheduled_s - request.spec().arrival_s);
  if (num_output == 0) return;
  request_prefill_computed_->observe(request.prompt_length() - request.num_cached_tokens);
  prefill_time_->observe(times.first_token_s - times.first_scheduled_s);
  inference_time_->observe(times.last_token_s - times.first_scheduled_s);
  decode_time_->observe(times.last_token_s - times.first_token_s);
  if (num_output > 1) {
    time_per_output_token_->observe((times.last_token_s - times.first_token_s) / static_cast<double>(num_output - 1));
  }
}

void EngineMetrics::add_finished_request(Request& request) {
  if (!enabled_) return;
  size_t longest = 0;
  for (int i = 0; i < request.num_sequences(); ++i) {
    longest = std::max(longest, request.sequence(i).output_token_ids.size());
  }
  request_n_->observe(request.params().n);
  request_max_generation_tokens_->observe(static_cast<double>(longest));
}

void EngineMetrics::add_rejection(Rejection reason) {
  if (enabled_) rejections_[static_cast<size_t>(reason)]->add(1);
}

}  // namespace unspool
