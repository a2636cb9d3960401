#include "metrics/metrics.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "metrics/prometheus_text.h"

namespace unspool {
namespace {

// The value after the line's exact series, or "" where there is none.
std::string value_of(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return line.substr(series.size() + 1);
  }
  return {};
}

TEST(PrometheusNumber, IsWrittenAsPythonDoes) {
  // Each as floatToGoString of prometheus_client.utils.
  EXPECT_EQ(prometheus_number(0), "0.0");
  EXPECT_EQ(prometheus_number(1), "1.0");
  EXPECT_EQ(prometheus_number(0.001), "0.001");
  EXPECT_EQ(prometheus_number(0.0001), "0.0001");
  EXPECT_EQ(prometheus_number(0.00001), "1e-05");
  EXPECT_EQ(prometheus_number(2560), "2560.0");
  EXPECT_EQ(prometheus_number(999999.5), "999999.5");
  EXPECT_EQ(prometheus_number(1e6), "1e+06");
  EXPECT_EQ(prometheus_number(12345678), "1.2345678e+07");
  EXPECT_EQ(prometheus_number(-1), "-1.0");
  EXPECT_EQ(prometheus_number(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(prometheus_number(std::numeric_limits<double>::quiet_NaN()), "NaN");
}

TEST(Metrics, SameNameAndLabelsGiveTheSameObject) {
  MetricsRegistry registry;
  Counter& a = registry.counter("a_total", "help", {{"x", "1"}});
  EXPECT_EQ(&a, &registry.counter("a_total", "help", {{"x", "1"}}));
  EXPECT_NE(&a, &registry.counter("a_total", "help", {{"x", "2"}}));
  EXPECT_THROW(registry.gauge("a_total", "help", {}), CheckFailure);
  EXPECT_THROW(registry.counter("a", "help", {}), CheckFailure);
}

TEST(Metrics, TextOfEachKind) {
  MetricsRegistry registry;
  registry.counter("vllm:prompt_tokens_total", "Tokens.", {{"engine", "0"}, {"model_name", "m"}}).add(3);
  Gauge& running = registry.gauge("vllm:num_requests_running", "Running.", {});
  running.set(5);
  running.add(-2);
  Histogram& latency = registry.histogram("vllm:ttft_seconds", "Time.", {{"engine", "0"}}, {0.001, 1, 2.5});
  for (const double seconds : {0.0005, 1.0, 2.0, 100.0}) latency.observe(seconds);

  const std::string text = registry.text();
  EXPECT_NE(text.find("# HELP vllm:prompt_tokens_total Tokens.\n# TYPE vllm:prompt_tokens_total counter\n"),
            std::string::npos);
  EXPECT_EQ(value_of(text, R"(vllm:prompt_tokens_total{engine="0",model_name="m"})"), "3.0");
  EXPECT_NE(text.find("# TYPE vllm:prompt_tokens_created gauge\n"), std::string::npos);
  EXPECT_NE(value_of(text, R"(vllm:prompt_tokens_created{engine="0",model_name="m"})"), "");
  EXPECT_EQ(value_of(text, "vllm:num_requests_running"), "3.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_bucket{engine="0",le="0.001"})"), "1.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_bucket{engine="0",le="1.0"})"), "2.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_bucket{engine="0",le="2.5"})"), "3.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_bucket{engine="0",le="+Inf"})"), "4.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_count{engine="0"})"), "4.0");
  EXPECT_EQ(value_of(text, R"(vllm:ttft_seconds_sum{engine="0"})"), "103.0005");
  EXPECT_NE(value_of(text, R"(vllm:ttft_seconds_created{engine="0"})"), "");
  EXPECT_EQ(text.back(), '\n');
}

TEST(Metrics, LabelValuesAndHelpAreEscaped) {
  MetricsRegistry registry;
  registry.gauge("g", "a\\b\nc\"d", {{"path", "a\\b\n\"c\""}}).set(1);
  const std::string text = registry.text();
  EXPECT_NE(text.find("# HELP g a\\\\b\\nc\"d\n"), std::string::npos);
  EXPECT_NE(text.find(R"(g{path="a\\b\n\"c\""} 1.0)"), std::string::npos);
}

TEST(Metrics, ProcessFigures) {
  const MetricsRegistry registry;
  const std::string text = registry.text();
  EXPECT_GT(std::stod(value_of(text, "process_resident_memory_bytes")), 1e5);
  EXPECT_GT(std::stod(value_of(text, "process_virtual_memory_bytes")), 1e6);
  EXPECT_GT(std::stod(value_of(text, "process_start_time_seconds")), 1.6e9);
  EXPECT_GE(std::stod(value_of(text, "process_cpu_seconds_total")), 0.0);
  EXPECT_GE(std::stod(value_of(text, "process_open_fds")), 3);
  EXPECT_GE(std::stod(value_of(text, "process_max_fds")), 16);
}

TEST(Metrics, ManyThreads) {
  MetricsRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        registry.counter("n_total", "", {{"k", std::to_string(i % 7)}}).add(1);
        registry.histogram("h", "", {}, {1}).observe(0.5);
        if (i % 100 == 0) registry.text();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value_of(registry.text(), "h_count"), "4000.0");
  EXPECT_EQ(value_of(registry.text(), "n_total{k=\"0\"}"), "572.0");
}

}  // namespace
}  // namespace unspool
