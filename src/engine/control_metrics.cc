#include "engine/control_metrics.h"

namespace unspool {

namespace {

const std::vector<double> kBuckets = {.01, .1, 1, 10, 30, 60, 120, 300, 600};

MetricLabels with(MetricLabels labels, const char* name, const char* value) {
  labels[name] = value;
  return labels;
}

}  // namespace

ControlMetrics::ControlMetrics(MetricsRegistry* registry, const EngineConfig& config)
    : enabled_(registry != nullptr && config.log_stats) {
  if (!enabled_) return;
  const MetricLabels labels = {{"model_name", config.model_name}, {"engine", "0"}};
  const auto sleep_state = [&](const char* state) {
    return &registry->gauge("vllm:engine_sleep_state",
                            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
                            "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
                            with(labels, "sleep_state", state));
  };
  awake_ = sleep_state("awake");
  weights_offloaded_ = sleep_state("weights_offloaded");
  discard_all_ = sleep_state("discard_all");
  set_awake();

  Gauge& in_flight =
      registry->gauge("vllm:sleep_mode_operations_in_flight", "Number of sleep mode operations in flight.", labels);
  const auto sleep_mode = [&](const char* operation) {
    return Instruments{&registry->histogram("vllm:sleep_mode_operation_duration_seconds",
                                            "Histogram of sleep mode operation duration in seconds.",
                                            with(labels, "operation", operation), kBuckets),
                       &in_flight};
  };
  operations_[Operation::kSleep] = sleep_mode("sleep");
  operations_[Operation::kReleaseKvCache] = sleep_mode("release_kv_cache_memory");
  operations_[Operation::kWake] = sleep_mode("wake");
}

void ControlMetrics::begin(Operation operation) {
  if (enabled_) operations_[operation].in_flight->add(1);
}

void ControlMetrics::end(Operation operation, double seconds) {
  if (!enabled_) return;
  operations_[operation].in_flight->add(-1);
  operations_[operation].duration->observe(seconds);
}

void ControlMetrics::set_asleep(int level) {
  set_sleep_state(false, level == 1, level == 2);
}

void ControlMetrics::set_awake() {
  set_sleep_state(true, false, false);
}

void ControlMetrics::set_sleep_state(bool awake, bool weights_offloaded, bool discard_all) {
  if (!enabled_) return;
  awake_->set(awake ? 1 : 0);
  weights_offloaded_->set(weights_offloaded ? 1 : 0);
  discard_all_->set(discard_all ? 1 : 0);
}

WeightUpdateMetrics::WeightUpdateMetrics(MetricsRegistry* registry, const EngineConfig& config) {
  if (registry == nullptr || !config.log_stats) return;
  const std::pair<Operation, const char*> names[] = {
      {Operation::kInit, "init"},
      {Operation::kShutdown, "shutdown"},
      {Operation::kStart, "start"},
      {Operation::kUpdate, "update"},
      {Operation::kFinish, "finish"},
      {Operation::kReload, "reload"},  // vLLM has no such operation: there it is one of many calls to a worker
  };
  for (const auto& [operation, name] : names) {
    const MetricLabels labels = {{"model_name", config.model_name}, {"engine", "0"}, {"operation", name}};
    operations_[operation] = {
        &registry->histogram("vllm:rl_weight_update_operation_duration_seconds",
                             "Histogram of RL weight update operation duration in seconds.", labels, kBuckets),
        &registry->gauge("vllm:rl_weight_update_operations_in_flight",
                         "Number of RL weight update operations in flight.", labels)};
  }
}

void WeightUpdateMetrics::begin(Operation operation) {
  if (const auto found = operations_.find(operation); found != operations_.end()) found->second.in_flight->add(1);
}

void WeightUpdateMetrics::end(Operation operation, double seconds) {
  const auto found = operations_.find(operation);
  if (found == operations_.end()) return;
  found->second.in_flight->add(-1);
  found->second.duration->observe(seconds);
}

}  // namespace unspool
