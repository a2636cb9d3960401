// The session of weight updates, route by route.
#include <fmt/format.h>

#include "protocol/control_reply.h"
#include "protocol/control_request.h"
#include "server/dev_routes.h"
#include "server/replies.h"
#include "server/transfer_errors.h"

namespace unspool {
namespace {

using Reply = std::shared_ptr<http::Responder>;

DoneCallback told(const Reply& reply, std::string_view message) {
  return [reply, message](Status done) {
    if (!done.ok()) return send_error(*reply, transfer_error(done.error()));
    send_json(*reply, message_body(message));
  };
}

void not_configured(http::Responder& responder) {
  send_error(responder, worker_error(kTransferNotConfigured));
}

void init(WeightTransfer* transfer, const http::HttpRequest& request, const Reply& reply) {
  const auto body = parse_init_transfer(request.body);
  if (!body.ok()) return send_error(*reply, body.error());
  if (transfer == nullptr) return not_configured(*reply);
  transfer->init(parse_init_info(transfer->backend(), body->root()["init_info"]),
                 told(reply, "Weight transfer initialized"));
}

void start(WeightTransfer* transfer, const http::HttpRequest& request, const Reply& reply) {
  if (transfer == nullptr) return not_configured(*reply);
  const auto body = parse_start_update(request.body);
  if (!body.ok()) return send_error(*reply, body.error());
  transfer->start(body->partial, told(reply, "Weight update started"), body->session);
}

void start_draft(WeightTransfer* transfer, const http::HttpRequest&, const Reply& reply) {
  if (transfer == nullptr) return not_configured(*reply);
  send_error(*reply, worker_error(kNoDraftModel));
}

void finish(WeightTransfer* transfer, const http::HttpRequest& request, const Reply& reply) {
  const auto body = parse_finish_update(request.body);
  if (!body.ok()) return send_error(*reply, body.error());
  if (transfer == nullptr) return not_configured(*reply);
  transfer->finish(body->version, told(reply, "Weight update finished"), body->session);
}

// Where there is nothing to shut down, the reference does not mind.
void shut_down(WeightTransfer* transfer, const http::HttpRequest&, const Reply& reply) {
  const auto done = told(reply, "Weight transfer shut down");
  if (transfer == nullptr) return done(Status());
  transfer->shut_down(done);
}

// prime-rl's: a directory, or null where the trainer means NCCL.
void update_from_directory(EngineControl& control, const WeightRoots& roots, const JsonValue& directory,
                           const Reply& reply) {
  const auto path = directory.as_string();
  if (!path || path->empty()) {
    return send_error(*reply, bad_request_for(fmt::format("weight_dir: expected a directory, got {}: without one, "
                                                          "weights come in an update_info; {}",
                                                          path ? "an empty text" : "null", kTransferBackends),
                                              "weight_dir"));
  }
  const auto resolved = roots.resolve(std::string(*path), "weight_dir");
  if (!resolved.ok()) return send_error(*reply, resolved.error());
  control.reload_weights({.weights_path = *resolved}, [reply](Status done) {
    if (done.ok()) return send_json(*reply, status_body("ok"));
    ApiError error = command_error("update_weights", done.error());
    if (!error.param.empty()) error.param = "weight_dir";  // as the client calls it
    send_error(*reply, error);
  });
}

}  // namespace

void add_transfer_routes(const AddRoute& add, EngineControl& control, WeightTransfer* transfer, WeightRoots roots) {
  const auto command = [&](const char* path, auto handler) {
    add("POST", path, [transfer, handler](const http::HttpRequest& request, const Reply& reply) {
      handler(transfer, request, reply);
    });
  };
  command("/init_weight_transfer_engine", init);
  command("/start_weight_update", start);
  command("/start_draft_weight_update", start_draft);
  command("/finish_weight_update", finish);
  command("/shutdown_weight_transfer_engine", shut_down);
  add("POST", "/update_weights",
      [&control, transfer, roots = std::move(roots)](const http::HttpRequest& request, const Reply& reply) {
        const auto body = parse_update_weights(request.body);
        if (!body.ok()) return send_error(*reply, body.error());
        const auto info = body->root().find("update_info");
        if (!info) return update_from_directory(control, roots, body->root()["weight_dir"], reply);
        if (transfer == nullptr) return not_configured(*reply);
        transfer->update(parse_update_info(transfer->backend(), *info), told(reply, "Weights updated"),
                         parse_session_name(*info));
      });
}

}  // namespace unspool
