#include "server/api_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "json/json_writer.h"
#include "protocol/control_request.h"
#include "protocol/derender_api.h"
#include "protocol/python_text.h"
#include "protocol/render_api.h"
#include "protocol/request_body.h"
#include "protocol/tokenize_api.h"
#include "server/active_request.h"
#include "server/api_key_filter.h"
#include "server/build_transfer.h"
#include "server/dev_routes.h"
#include "server/server_info.h"
#include "server/version.h"

namespace unspool {
namespace {

// Two: a reply of thousands of log-probs must not hold up everybody's tokens.
constexpr int kReplyThreads = 2;
// A body of this size takes some tenths of a second to read and tokenize; ten megabytes take seconds.
constexpr size_t kLargeBodyBytes = 256 * 1024;
constexpr int kLargeRequestThreads = 2;

http::ServerOptions http_options(const ServeOptions& options) {
  http::ServerOptions out;
  out.host = options.host;
  out.port = options.port;
  out.unix_socket = options.unix_socket;
  return out;
}

RequestHeaders read_headers(const http::HttpRequest& request) {
  const auto number = [&](std::string_view name) -> std::optional<int64_t> {
    const std::string* text = request.header(name);
    return text == nullptr ? std::nullopt : python::parse_int(*text);
  };
  RequestHeaders headers;
  if (const std::string* id = request.header("x-request-id")) headers.request_id = *id;
  headers.data_parallel_rank = number("x-data-parallel-rank");
  headers.priority = number("x-vllm-priority");
  return headers;
}

// Off the sockets' threads an exception has nobody above it. The responder goes, and that answers 500.
void handle(const http::Handler& handler, http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  try {
    handler(std::move(request), std::move(responder));
  } catch (const std::exception& error) {
    log_error("a large request failed: {}", error.what());
  }
}

void answer(http::Responder& responder, ApiResult<std::string> body) {
  if (body.ok()) {
    send_json(responder, std::move(*body));
  } else {
    send_error(responder, body.error());
  }
}

// The handler of a route whose reply is made of its request alone.
template <class Reply>
http::Handler answering(Reply reply) {
  return [reply](http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
    const auto document = parse_body(request.header("content-type"), request.body);
    if (!document.ok()) return send_error(*responder, document.error());
    answer(*responder, reply(document->root(), request));
  };
}

void refuse_scale_out(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  send_error(*responder,
             {403,
              "PermissionDeniedError",
              "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.",
              {}});
}

// What a stream says whose request the reference's engine would refuse: it has begun by then.
void send_lazy_error(http::Responder& responder, const ApiError& error, bool stream) {
  if (!stream) return send_error(responder, error);
  responder.start(200, kEventStreamType, {});
  responder.write(sse_event(stream_error_body(error)).append(kSseDone));
  responder.finish();
}

}  // namespace

ApiServer::ApiServer(ServingContext& context)
    : context_(context),
      config_(context.protocol),
      http_metrics_(context.metrics, context.options.access_log),
      workers_(kReplyThreads),
      large_requests_(kLargeRequestThreads),
      transfer_(build_transfer(context)),
      http_(http_options(context.options)) {
  const ServeOptions& options = context.options;
  if (options.keep_alive_interval_s > 0) keep_alive_ = std::make_unique<KeepAlive>(options.keep_alive_interval_s);
  const bool open_dev_routes = options.control.dev_routes && options.control.unguarded_dev_routes;
  http_.set_filter(ApiKeyFilter(options.api_keys, options.root_path, open_dev_routes));
  http_.set_observer([this](auto... args) { http_metrics_.observe(args...); });
  add_routes();
}

ApiServer::~ApiServer() {
  http_.stop();
}

Status ApiServer::start() {
  return http_.start();
}

std::string ApiServer::address() const {
  const ServeOptions& options = context_.options;
  if (!options.unix_socket.empty()) return options.unix_socket;
  const bool v6 = options.host.find(':') != std::string::npos;
  return v6 ? fmt::format("http://[{}]:{}", options.host, port()) : fmt::format("http://{}:{}", options.host, port());
}

void ApiServer::add_route(std::string method, std::string path, http::Handler handler) {
  // Behind a proxy with --root-path, requests may come with the prefix or without.
  const http::Handler measured = [this, path, inner = std::move(handler)](http::HttpRequest request,
                                                                          std::shared_ptr<http::Responder> responder) {
    auto wrapped =
        http_metrics_.measured(request, path, std::move(responder), context_.options.enable_request_id_headers);
    if (request.body.size() < kLargeBodyBytes) return inner(std::move(request), std::move(wrapped));
    large_requests_.post([inner, request = std::move(request), wrapped = std::move(wrapped)]() mutable {
      handle(inner, std::move(request), std::move(wrapped));
    });
  };
  http_.route(method, path, measured);
  if (!context_.options.root_path.empty()) http_.route(method, context_.options.root_path + path, measured);
}

void ApiServer::add_route(std::string method, const char* path, Method handler) {
  add_route(std::move(method), path,
            [this, handler](http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
              (this->*handler)(std::move(request), std::move(responder));
            });
}

void ApiServer::add_routes() {
  add_route("POST", "/v1/completions", &ApiServer::completions);
  add_route("POST", "/v1/chat/completions", &ApiServer::chat);
  add_route("POST", "/v1/chat/completions/batch", &ApiServer::chat_batch);
  const ServingConfig& config = config_;
  add_route("POST", "/tokenize",
            answering([&config](const JsonValue& body, const http::HttpRequest&) { return tokenize(body, config); }));
  add_route("POST", "/detokenize",
            answering([&config](const JsonValue& body, const http::HttpRequest&) { return detokenize(body, config); }));
  add_route("GET", "/v1/models", &ApiServer::models);
  add_route("GET", "/health", &ApiServer::health);
  add_route("GET", "/ping", &ApiServer::health);
  add_route("POST", "/ping", &ApiServer::health);
  add_route("GET", "/version", &ApiServer::version);
  add_route("GET", "/load", &ApiServer::load);
  add_route("GET", "/metrics", &ApiServer::metrics);
  add_scale_out_routes();
  if (context_.options.control.dev_routes) add_dev_routes();
}

void ApiServer::add_scale_out_routes() {
  if (!context_.options.scale_out) {
    for (const char* path : {"/inference/v1/generate", "/inference/v1/abort_requests", "/v1/chat/completions/render",
                             "/v1/completions/render", "/v1/chat/completions/derender", "/v1/completions/derender"}) {
      add_route("POST", path, refuse_scale_out);
    }
    return;
  }
  add_route("POST", "/inference/v1/generate", &ApiServer::generate);
  add_route("POST", "/inference/v1/abort_requests", &ApiServer::abort_requests);
  using Body = const JsonValue&;
  using Request = const http::HttpRequest&;
  const ServingConfig& config = config_;
  add_route("POST", "/v1/chat/completions/render", answering([&config](Body body, Request request) {
              return render_chat_request(body, read_headers(request), config);
            }));
  add_route("POST", "/v1/completions/render", answering([&config](Body body, Request request) {
              return render_completion_request(body, read_headers(request), config);
            }));
  add_route("POST", "/v1/chat/completions/derender",
            answering([&config](Body body, Request) { return derender_chat(body, config); }));
  add_route("POST", "/v1/completions/derender",
            answering([&config](Body body, Request) { return derender_completion(body, config); }));
  if (context_.options.tokens_only) add_route("POST", "/abort_requests", &ApiServer::abort_requests);
}

// After the others: /abort_requests is theirs where both are on.
void ApiServer::add_dev_routes() {
  EngineControl& control = context_.engine->control();
  const AddRoute add = [this](const char* method, const char* path, http::Handler handler) {
    add_route(method, path, std::move(handler));
  };
  const WeightRoots roots(context_.options.control.weight_directories);
  add_control_routes(add, control);
  add_weight_routes(add, control);
  add_transfer_routes(add, control, transfer_.get(), roots);
  add_areal_routes(add, control, roots);
  add_rpc_route(add, control, transfer_.get(), roots,
                {context_.options.model, context_.served_dtype, context_.dummy_tensors});
  add_route("GET", "/server_info", &ApiServer::server_info);
}

void ApiServer::completions(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  const auto document = parse_body(request.header("content-type"), request.body);
  if (!document.ok()) return send_error(*responder, document.error());
  const auto parsed = parse_completion_request(document->root(), config_);
  if (!parsed.ok()) return send_error(*responder, parsed.error());
  run(prepare_completion(*parsed, read_headers(request), config_), std::move(responder), true);
}

void ApiServer::answer_chat(const http::HttpRequest& request, std::shared_ptr<http::Responder> responder, bool batch) {
  const auto document = parse_body(request.header("content-type"), request.body);
  if (!document.ok()) return send_error(*responder, document.error());
  const auto parsed = parse_chat_request(document->root(), config_, batch);
  if (!parsed.ok()) return send_error(*responder, parsed.error());
  run(prepare_chat(*parsed, read_headers(request), config_), std::move(responder), true);
}

void ApiServer::chat(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  answer_chat(request, std::move(responder), false);
}

void ApiServer::chat_batch(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  answer_chat(request, std::move(responder), true);
}

void ApiServer::generate(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  const auto document = parse_body(request.header("content-type"), request.body);
  if (!document.ok()) return send_error(*responder, document.error());
  const auto parsed = parse_generate_request(document->root(), config_);
  if (!parsed.ok()) return send_error(*responder, parsed.error());
  run(prepare_generate(*parsed, read_headers(request), config_), std::move(responder), false);
}

MaybeError ApiServer::check_engine(const PreparedRequest& prepared) const {
  if (!context_.engine->healthy()) return ApiError{500, "InternalServerError", "The engine has stopped.", {}};
  for (const PreparedPrompt& prompt : prepared.prompts) {
    const auto length = static_cast<int>(prompt.token_ids.size());
    if (context_.engine->fits(length)) continue;
    return invalid_parameter(fmt::format("The prompt of {} tokens can never fit the KV cache, which holds {} tokens.",
                                         length, context_.engine->stats().capacity_tokens),
                             "input_tokens", std::to_string(length));
  }
  return std::nullopt;
}

void ApiServer::log_request(const PreparedRequest& prepared) const {
  for (const PreparedPrompt& prompt : prepared.prompts) {
    log_info("Request {}: {} prompt tokens, n {}, max_tokens {}, temperature {}, stream {}", prompt.external_id,
             prompt.token_ids.size(), prompt.params.n, prompt.params.max_tokens, prompt.params.temperature,
             prepared.stream);
  }
}

// A full queue is a 503 even for a stream, and so are weights that were discarded: then the head has to wait for the
// engine's word. A bad structural tag is refused when a request is read, as far as clients can see.
bool ApiServer::may_be_refused(const PreparedRequest& prepared, const ControlStatus& status) const {
  const StructuredOutputs* constraint = prepared.prompts.front().params.structured_outputs.get();
  if (constraint != nullptr && constraint->grammar.kind == GrammarKind::kStructuralTag && !constraint->field.empty()) {
    return true;
  }
  const bool asleep = status.weights_asleep || status.kv_cache_asleep;
  return context_.options.max_num_queued_reqs > 0 || context_.options.max_num_queued_tokens > 0 ||
         (status.weights_discarded && !asleep);
}

void ApiServer::run(ApiResult<PreparedRequest> prepared, std::shared_ptr<http::Responder> responder, bool keep_alive) {
  if (!prepared.ok()) return send_error(*responder, prepared.error());
  if (prepared->lazy_error) return send_lazy_error(*responder, *prepared->lazy_error, prepared->stream);
  if (const auto error = check_engine(*prepared)) return send_error(*responder, *error);
  if (context_.options.log_requests) log_request(*prepared);
  const bool stream = prepared->stream;
  const ControlStatus status = context_.engine->control().status();
  const bool may_wait = may_be_refused(*prepared, status);
  auto active = std::make_shared<ActiveRequest>(std::move(*prepared), std::move(responder), *context_.engine, workers_);
  active->set_weight_version(status.weight_version);
  if (context_.options.track_server_load) {
    ++server_load_;
    active->on_end([this] { --server_load_; });
  }
  active->start(may_wait);
  if (stream && keep_alive && keep_alive_) keep_alive_->watch(active);
}

void ApiServer::abort_requests(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  auto ids = parse_abort_request(request.body);
  if (!ids.ok()) return send_error(*responder, ids.error());
  context_.engine->abort_requests(std::move(*ids));
  responder->send({200, "", "", {}});
}

void ApiServer::models(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  send_json(*responder, models_body(config_));
}

void ApiServer::health(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  responder->send({context_.engine->healthy() ? 200 : 503, "", "", {}});
}

void ApiServer::version(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  JsonWriter w;
  w.begin_object();
  w.key("version");
  w.string(kReferenceVersion);
  w.key("unspool");
  w.string(unspool::version());
  w.end_object();
  send_json(*responder, std::move(w).str());
}

void ApiServer::load(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  send_json(*responder, fmt::format(R"({{"server_load":{}}})", server_load_.load()));
}

void ApiServer::metrics(http::HttpRequest, std::shared_ptr<http::Responder> responder) {
  responder->send({200, "text/plain; version=1.0.0; charset=utf-8", context_.metrics.text(), {}});
}

void ApiServer::server_info(http::HttpRequest request, std::shared_ptr<http::Responder> responder) {
  const auto as_json = parse_config_format(request.query_parameters());
  if (!as_json.ok()) return send_error(*responder, as_json.error());
  send_json(*responder, server_info_body(context_, *as_json, environ));
}

void ApiServer::shut_down(double timeout_s) {
  // Replies of aborted requests are short; a client that does not take them must not hold the process.
  constexpr double kFlushSeconds = 5;
  http_.stop_accepting();
  if (transfer_) transfer_->stop();
  context_.engine->shutdown(timeout_s);
  http_.drain(kFlushSeconds);
  http_.stop();
}

}  // namespace unspool
