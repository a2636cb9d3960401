// The Prometheus text format, written as Python's prometheus_client writes it.
#pragma once

#include <string>
#include <string_view>

#include "metrics/metrics.h"

namespace unspool {

// A number as prometheus_client prints it: "1.0", "0.001", "1e+06", "+Inf", "NaN". Dashboards match histogram buckets
// by the text of the `le` label, so le="1" would be another series than the reference's le="1.0".
std::string prometheus_number(double value);

class PrometheusText {
 public:
  void family(std::string_view name, std::string_view help, std::string_view type);
  void sample(std::string_view name, const MetricLabels& labels, double value);
  // A sample with the label `le` after the others.
  void bucket(std::string_view name, const MetricLabels& labels, double upper_bound, double value);

  std::string str() && { return std::move(out_); }

 private:
  void sample_with(std::string_view name, const MetricLabels& labels, std::string_view le, double value);
  std::string out_;
};

// Writes process_*: memory, cpu time, descriptors and start time, read from /proc now.
void write_process_metrics(PrometheusText& text);

}  // namespace unspool
