// The http_* metrics, named and cut as prometheus-fastapi-instrumentator does, and what else concerns every answer: the
// X-Request-Id header and the access log.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/server.h"
#include "metrics/metrics.h"

namespace unspool {

class HttpMetrics {
 public:
  HttpMetrics(MetricsRegistry& registry, bool access_log);

  // For http::Server::set_observer.
  void observe(std::string_view method, std::string_view route, int status, double seconds);

  // A responder that counts the bytes of the answer (and of `request`), and adds X-Request-Id where `with_request_id`.
  std::shared_ptr<http::Responder> measured(const http::HttpRequest& request, std::string route,
                                            std::shared_ptr<http::Responder> inner, bool with_request_id);

 private:
  MetricsRegistry& registry_;
  bool access_log_;
};

}  // namespace unspool
