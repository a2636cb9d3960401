#include <fmt/format.h>

#include "json/json_writer.h"
#include "protocol/control_reply.h"
#include "protocol/control_request.h"
#include "server/dev_routes.h"
#include "server/replies.h"

namespace unspool {
namespace {

using Reply = std::shared_ptr<http::Responder>;

void update_weight_version(EngineControl& control, const http::HttpRequest& request, const Reply& reply) {
  const auto version = parse_new_version(request.body);
  if (!version.ok()) return send_error(*reply, version.error());
  control.update_weight_version(*version, [reply, version = *version](Status done) {
    if (!done.ok()) return send_error(*reply, command_error("update_weight_version", done.error()));
    send_json(*reply, new_version_body(version));
  });
}

void weight_checker(EngineControl& control, const http::HttpRequest& request, const Reply& reply) {
  auto check = parse_weight_check(request.body);
  if (!check.ok()) return send_error(*reply, check.error());
  if (check->action == WeightCheck::Action::kReset) {
    return control.zero_weights([reply](Status done) {
      if (!done.ok()) return send_error(*reply, command_error("collective_rpc", done.error()));
      send_json(*reply, status_body("reset"));
    });
  }
  control.weight_checksums([reply, check = std::move(*check)](Result<WeightChecksums> done) {
    if (!done.ok()) return send_error(*reply, command_error("collective_rpc", done.error()));
    const WeightChecksums checksums = worker_checksums(*done);
    const bool compare = check.action == WeightCheck::Action::kCompare;
    send_json(*reply, compare ? comparison_body(checksums, check.baseline) : checksums_body(checksums));
  });
}

// Beyond the reference's one field: what is there of the weights, for whoever wonders why nothing is generated.
void weight_info(const EngineControl& control, http::Responder& responder) {
  const ControlStatus status = control.status();
  JsonWriter w;
  w.begin_object();
  w.key("weight_version");
  w.string(status.weight_version);
  for (const auto& [key, value] :
       {std::pair("weights_asleep", status.weights_asleep), std::pair("kv_cache_asleep", status.kv_cache_asleep),
        std::pair("weights_discarded", status.weights_discarded)}) {
    w.key(key);
    w.boolean(value);
  }
  w.end_object();
  send_json(responder, std::move(w).str());
}

}  // namespace

void add_weight_routes(const AddRoute& add, EngineControl& control) {
  add("POST", "/update_weight_version", [&control](const http::HttpRequest& request, const Reply& reply) {
    update_weight_version(control, request, reply);
  });
  add("POST", "/weight_checker",
      [&control](const http::HttpRequest& request, const Reply& reply) { weight_checker(control, request, reply); });
  add("GET", "/weight_info",
      [&control](const http::HttpRequest&, const Reply& reply) { weight_info(control, *reply); });
  add("GET", "/get_world_size", [](const http::HttpRequest& request, const Reply& reply) {
    const auto include_dp = parse_include_dp(request.query_parameters());
    if (!include_dp.ok()) return send_error(*reply, include_dp.error());
    send_json(*reply, R"({"world_size":1})");
  });
}

}  // namespace unspool
