#include "metrics/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <variant>

#include "base/check.h"
#include "metrics/prometheus_text.h"

namespace unspool {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The library's instruments behind our interfaces. Its registry and text serializer are not used: they print le="1"
// where Python prints le="1.0", know no _created, and order series by hash.
class CounterOver final : public Counter {
 public:
  void add(double value) override { counter_.Increment(value); }
  double value() const { return counter_.Value(); }

 private:
  prometheus::Counter counter_;
};

class GaugeOver final : public Gauge {
 public:
  void set(double value) override { gauge_.Set(value); }
  void add(double value) override { gauge_.Increment(value); }
  double value() const { return gauge_.Value(); }

 private:
  prometheus::Gauge gauge_;
};

class HistogramOver final : public Histogram {
 public:
  explicit HistogramOver(const std::vector<double>& upper_bounds) : histogram_(upper_bounds) {}
  void observe(double value) override { histogram_.Observe(value); }
  prometheus::ClientMetric::Histogram value() const { return histogram_.Collect().histogram; }

 private:
  prometheus::Histogram histogram_;
};

// All series of one name, in the order of their labels.
template <class Instrument>
struct Family {
  struct Series {
    std::unique_ptr<Instrument> instrument;
    double created = unix_time();
  };
  std::string help;
  std::map<MetricLabels, Series> series;

  template <class... Args>
  Instrument& get(const MetricLabels& labels, const Args&... args) {
    Series& found = series[labels];
    if (!found.instrument) found.instrument = std::make_unique<Instrument>(args...);
    return *found.instrument;
  }

  void write_created(PrometheusText& text, const std::string& name) const {
    text.family(name, help, "gauge");
    for (const auto& [labels, one] : series) text.sample(name, labels, one.created);
  }
};

constexpr std::string_view kTotal = "_total";

void write(PrometheusText& text, const std::string& name, const Family<CounterOver>& family) {
  text.family(name, family.help, "counter");
  for (const auto& [labels, one] : family.series) text.sample(name, labels, one.instrument->value());
  family.write_created(text, name.substr(0, name.size() - kTotal.size()) + "_created");
}

void write(PrometheusText& text, const std::string& name, const Family<GaugeOver>& family) {
  text.family(name, family.help, "gauge");
  for (const auto& [labels, one] : family.series) text.sample(name, labels, one.instrument->value());
}

void write(PrometheusText& text, const std::string& name, const Family<HistogramOver>& family) {
  text.family(name, family.help, "histogram");
  for (const auto& [labels, one] : family.series) {
    const auto histogram = one.instrument->value();
    for (const auto& bucket : histogram.bucket) {
      text.bucket(name + "_bucket", labels, bucket.upper_bound, static_cast<double>(bucket.cumulative_count));
    }
    text.sample(name + "_count", labels, static_cast<double>(histogram.sample_count));
    text.sample(name + "_sum", labels, histogram.sample_sum);
  }
  family.write_created(text, name + "_created");
}

using AnyFamily = std::variant<Family<CounterOver>, Family<GaugeOver>, Family<HistogramOver>>;

}  // namespace

struct MetricsRegistry::Impl {
  template <class Instrument>
  Family<Instrument>& family(std::string_view name, std::string_view help) {
    const auto [it, added] = index.try_emplace(std::string(name), families.size());
    if (added) families.emplace_back(std::string(name), Family<Instrument>{std::string(help), {}});
    auto* found = std::get_if<Family<Instrument>>(&families[it->second].second);
    UNSPOOL_CHECK(found != nullptr, "metric {} has two types", name);
    return *found;
  }

  mutable std::mutex mutex;
  std::vector<std::pair<std::string, AnyFamily>> families;  // in the order of their first use
  std::map<std::string, size_t> index;
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter& MetricsRegistry::counter(std::string_view name, std::string_view help, const MetricLabels& labels) {
  UNSPOOL_CHECK(name.ends_with(kTotal), "a counter's name ends in _total, got {}", name);
  const std::lock_guard lock(impl_->mutex);
  return impl_->family<CounterOver>(name, help).get(labels);
}

Gauge& MetricsRegistry::gauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->family<GaugeOver>(name, help).get(labels);
}

Histogram& MetricsRegistry::histogram(std::string_view name, std::string_view help, const MetricLabels& labels,
                                      const std::vector<double>& upper_bounds) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->family<HistogramOver>(name, help).get(labels, upper_bounds);
}

std::string MetricsRegistry::text() const {
  PrometheusText text;
  write_process_metrics(text);
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [name, family] : impl_->families) {
    std::visit([&](const auto& one) { write(text, name, one); }, family);
  }
  return std::move(text).str();
}

}  // namespace unspool
