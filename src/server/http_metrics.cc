#include "server/http_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/ids.h"
#include "base/log.h"

namespace unspool {
namespace {

const std::vector<double> kCoarse = {0.1, 0.5, 1};
const std::vector<double> kFine = {.01, .025, .05, .075, .1,  .25, .5,  .75, 1,  1.5, 2,
                                   2.5, 3,    3.5, 4,    4.5, 5,   7.5, 10,  30, 60};

bool is_excluded(std::string_view route) {
  constexpr std::array<std::string_view, 6> kExcluded = {"/metrics", "/health",  "/load",
                                                         "/ping",    "/version", "/server_info"};
  return std::find(kExcluded.begin(), kExcluded.end(), route) != kExcluded.end();
}

// Clients may send any word as a method; labels must stay few.
std::string method_label(std::string_view method) {
  constexpr std::array<std::string_view, 7> kKnown = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"};
  return std::string(std::find(kKnown.begin(), kKnown.end(), method) != kKnown.end() ? method : "OTHER");
}

// Passes everything on and counts what passes.
class MeasuredResponder final : public http::Responder {
 public:
  MeasuredResponder(std::shared_ptr<http::Responder> inner, Histogram& sizes, std::string request_id)
      : inner_(std::move(inner)), sizes_(sizes), request_id_(std::move(request_id)) {}
  ~MeasuredResponder() override { sizes_.observe(static_cast<double>(bytes_)); }

  void send(http::HttpResponse response) override {
    bytes_ += response.body.size();
    add_headers(response.headers);
    inner_->send(std::move(response));
  }
  void start(int status, std::string content_type, std::vector<std::pair<std::string, std::string>> headers) override {
    add_headers(headers);
    inner_->start(status, std::move(content_type), std::move(headers));
  }
  void write(std::string bytes) override {
    bytes_ += bytes.size();
    inner_->write(std::move(bytes));
  }
  void finish() override { inner_->finish(); }
  size_t backlog_bytes() const override { return inner_->backlog_bytes(); }
  void on_disconnect(std::function<void()> callback) override { inner_->on_disconnect(std::move(callback)); }

 private:
  void add_headers(std::vector<std::pair<std::string, std::string>>& headers) const {
    if (!request_id_.empty()) headers.emplace_back("X-Request-Id", request_id_);
  }
  const std::shared_ptr<http::Responder> inner_;
  Histogram& sizes_;
  const std::string request_id_;
  std::atomic<size_t> bytes_ = 0;
};

}  // namespace

HttpMetrics::HttpMetrics(MetricsRegistry& registry, bool access_log) : registry_(registry), access_log_(access_log) {}

void HttpMetrics::observe(std::string_view method, std::string_view route, int status, double seconds) {
  if (access_log_) {
    log_info("{} {} {} in {:.1f} ms", method_label(method), route.empty() ? "(unknown path)" : route, status,
             seconds * 1e3);
  }
  if (is_excluded(route)) return;
  const std::string handler(route.empty() ? "none" : route);
  const std::string label = method_label(method);
  registry_
      .counter("http_requests_total", "Total number of requests by method, status and handler.",
               {{"handler", handler}, {"method", label}, {"status", fmt::format("{}xx", status / 100)}})
      .add(1);
  registry_
      .histogram("http_request_duration_seconds", "Latency by handler and method.",
                 {{"handler", handler}, {"method", label}}, kCoarse)
      .observe(seconds);
  registry_.histogram("http_request_duration_highr_seconds", "Latency over all handlers.", {}, kFine).observe(seconds);
}

std::shared_ptr<http::Responder> HttpMetrics::measured(const http::HttpRequest& request, std::string route,
                                                       std::shared_ptr<http::Responder> inner, bool with_request_id) {
  static const std::vector<double> kBytes = {1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
  const MetricLabels labels = {{"handler", std::move(route)}};
  registry_.histogram("http_request_size_bytes", "Bytes of request bodies by handler.", labels, kBytes)
      .observe(static_cast<double>(request.body.size()));
  Histogram& sizes = registry_.histogram("http_response_size_bytes", "Bytes of answers by handler.", labels, kBytes);
  std::string id;
  if (with_request_id) {
    const std::string* given = request.header("x-request-id");
    id = given != nullptr ? *given : random_hex(16) + random_hex(16);
  }
  return std::make_shared<MeasuredResponder>(std::move(inner), sizes, std::move(id));
}

}  // namespace unspool
