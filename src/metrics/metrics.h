// Counters, gauges and histograms, and their Prometheus text. Over prometheus-cpp's instruments; none of its types
// leave metrics.cc.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace unspool {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double value) = 0;
};
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual void add(double value) = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

// Thread-safe. Returned references live as long as the registry; asking again for the same name and labels gives the
// same object.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  // `name` is the exposed name: counters end in "_total". A "_created" gauge is written beside each counter and
  // histogram (Unix time of its first use), as Python's prometheus_client does.
  Counter& counter(std::string_view name, std::string_view help, const MetricLabels& labels);
  Gauge& gauge(std::string_view name, std::string_view help, const MetricLabels& labels);
  Histogram& histogram(std::string_view name, std::string_view help, const MetricLabels& labels,
                       const std::vector<double>& upper_bounds);
  // The whole registry as text, format version 1.0.0, parseable by prometheus_client. Includes process_* (virtual and
  // resident bytes, cpu seconds, open and max fds, start time) read from /proc at the time of the call.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unspool
