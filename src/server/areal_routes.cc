// What AReaL asks of an engine: a pause that aborts, and an update from a directory.
#include "protocol/control_reply.h"
#include "protocol/control_request.h"
#include "server/dev_routes.h"
#include "server/replies.h"

namespace unspool {
namespace {

using Reply = std::shared_ptr<http::Responder>;

// AReaL knows these two statuses alone.
void send_success(http::Responder& responder, bool success, std::string_view message) {
  send_json(responder, success ? 200 : 400, success_body(success, message));
}

// Its client sends what was aborted again, with what it has of it, after the update.
void update_weights(EngineControl& control, const WeightRoots& roots, const http::HttpRequest& request, Reply reply) {
  const auto path = parse_model_path(request.body);
  if (!path.ok()) return send_error(*reply, path.error());
  if (path->empty()) return send_success(*reply, false, "model_path: expected a directory, got an empty text");
  const auto resolved = roots.resolve(*path, "model_path");
  if (!resolved.ok()) return send_success(*reply, false, resolved.error().message);
  control.abort({}, [&control, reply, path = *resolved](Result<int> aborted) {
    if (!aborted.ok()) return send_success(*reply, false, aborted.error().message);
    control.reload_weights({.weights_path = path}, [reply](Status done) {
      send_success(*reply, done.ok(),
                   done.ok() ? "TP rank: 0 success" : "TP rank: 0 failed. reason: " + done.error().message);
    });
  });
}

}  // namespace

void add_areal_routes(const AddRoute& add, EngineControl& control, WeightRoots roots) {
  add("POST", "/areal_pause_generation", [&control](const http::HttpRequest&, const Reply& reply) {
    control.pause(PauseMode::kAbort, true, [reply](Result<PauseReply> done) {
      send_success(*reply, done.ok(), done.ok() ? "Generation paused and all requests aborted" : done.error().message);
    });
  });
  add("POST", "/areal_continue_generation", [&control](const http::HttpRequest&, const Reply& reply) {
    control.resume([reply](Result<PauseReply> done) {
      send_success(*reply, done.ok(), done.ok() ? "Generation continued" : done.error().message);
    });
  });
  add("POST", "/areal_update_weights",
      [&control, roots = std::move(roots)](const http::HttpRequest& request, Reply reply) {
        update_weights(control, roots, request, std::move(reply));
      });
}

}  // namespace unspool
