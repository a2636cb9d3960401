// The routes, and what is behind them.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/control.h"
#include "http/server.h"
#include "protocol/prepared_request.h"
#include "server/http_metrics.h"
#include "server/keep_alive.h"
#include "server/reply_workers.h"
#include "server/serving_context.h"
#include "server/weight_transfer.h"

namespace unspool {

class ApiServer {
 public:
  // The context outlives the server.
  explicit ApiServer(ServingContext& context);
  ~ApiServer();

  Status start();
  uint16_t port() const { return http_.port(); }
  // "http://127.0.0.1:8000", or the socket's path.
  std::string address() const;

  // No new requests; what runs has that long to end, is then aborted, and its replies leave.
  void shut_down(double timeout_s);

 private:
  using Method = void (ApiServer::*)(http::HttpRequest, std::shared_ptr<http::Responder>);
  void add_route(std::string method, std::string path, http::Handler handler);
  void add_route(std::string method, const char* path, Method handler);
  void add_routes();
  void add_scale_out_routes();
  void add_dev_routes();

  void completions(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void chat(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void chat_batch(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void answer_chat(const http::HttpRequest& request, std::shared_ptr<http::Responder> responder, bool batch);
  void generate(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void abort_requests(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void models(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void health(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void version(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void load(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void metrics(http::HttpRequest request, std::shared_ptr<http::Responder> responder);
  void server_info(http::HttpRequest request, std::shared_ptr<http::Responder> responder);

  // The common way of a request that generates.
  void run(ApiResult<PreparedRequest> prepared, std::shared_ptr<http::Responder> responder, bool keep_alive);
  MaybeError check_engine(const PreparedRequest& prepared) const;
  bool may_be_refused(const PreparedRequest& prepared, const ControlStatus& status) const;
  void log_request(const PreparedRequest& prepared) const;

  ServingContext& context_;
  const ServingConfig& config_;
  HttpMetrics http_metrics_;
  std::atomic<int> server_load_ = 0;
  ReplyWorkers workers_;
  std::unique_ptr<KeepAlive> keep_alive_;     // null: --sse-keep-alive-interval 0
  ReplyWorkers large_requests_;               // what the threads of the sockets must not wait for
  std::unique_ptr<WeightTransfer> transfer_;  // null: none is configured, or nobody could ask
  http::Server http_;                         // last: its threads stop before anything they use goes
};

}  // namespace unspool
