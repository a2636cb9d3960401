// The control plane's part of /metrics: vLLM's names, labels and buckets.
#pragma once

#include <map>
#include <string>

#include "engine/engine.h"
#include "metrics/metrics.h"

namespace unspool {

// All methods do nothing without a registry.
class ControlMetrics {
 public:
  ControlMetrics(MetricsRegistry* registry, const EngineConfig& config);

  enum class Operation { kSleep, kReleaseKvCache, kWake };
  // An operation is in flight from begin() to end(), the wait for what is in flight included.
  void begin(Operation operation);
  void end(Operation operation, double seconds);

  // Of the last sleep: its level as asked for; awake again once nothing is asleep.
  void set_asleep(int level);
  void set_awake();

 private:
  struct Instruments {
    Histogram* duration = nullptr;
    Gauge* in_flight = nullptr;
  };
  void set_sleep_state(bool awake, bool weights_offloaded, bool discard_all);

  bool enabled_ = false;
  std::map<Operation, Instruments> operations_;
  Gauge* awake_ = nullptr;
  Gauge* weights_offloaded_ = nullptr;
  Gauge* discard_all_ = nullptr;
};

// What it takes to bring new weights: the engine times what it does, the transfer the rest, over one registry. Any
// thread.
class WeightUpdateMetrics {
 public:
  enum class Operation { kInit, kShutdown, kStart, kUpdate, kFinish, kReload };
  WeightUpdateMetrics(MetricsRegistry* registry, const EngineConfig& config);

  void begin(Operation operation);
  void end(Operation operation, double seconds);

 private:
  struct Instruments {
    Histogram* duration = nullptr;
    Gauge* in_flight = nullptr;
  };
  std::map<Operation, Instruments> operations_;  // empty where nothing is counted
};

}  // namespace unspool
