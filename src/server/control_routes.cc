#include "protocol/control_reply.h"
#include "protocol/control_request.h"
#include "server/dev_routes.h"
#include "server/replies.h"

namespace unspool {
namespace {

using Reply = std::shared_ptr<http::Responder>;

PauseMode mode_of(std::string_view name) {
  if (name == "wait") return PauseMode::kWait;
  return name == "keep" ? PauseMode::kKeep : PauseMode::kAbort;
}

void send_empty(http::Responder& responder) {
  responder.send({200, "", "", {}});
}

// /pause, /resume and /abort_requests have no envelope around what the engine says.
void send_flat_error(http::Responder& responder, const Error& error, std::string_view failed) {
  const int status = from_engine_error(error).status;
  const std::string message = status == 500 ? std::string(failed) + ": " + error.message : error.message;
  send_json(responder, status, flat_error_body(message));
}

void pause(EngineControl& control, const http::HttpRequest& request, Reply reply) {
  const auto query = parse_pause_query(request.query_parameters());
  if (!query.ok()) return send_error(*reply, query.error());
  control.pause(mode_of(query->mode), query->clear_cache, [reply](Result<PauseReply> done) {
    if (!done.ok()) return send_flat_error(*reply, done.error(), "Failed to pause generation");
    send_json(*reply, status_body("paused"));
  });
}

void resume(EngineControl& control, const http::HttpRequest&, Reply reply) {
  control.resume([reply](Result<PauseReply> done) {
    if (!done.ok()) return send_flat_error(*reply, done.error(), "Failed to resume generation");
    send_json(*reply, resumed_body(done->mixed_weights));
  });
}

void sleep(EngineControl& control, const http::HttpRequest& request, Reply reply) {
  const auto query = parse_sleep_query(request.query_parameters());
  if (!query.ok()) return send_error(*reply, query.error());
  control.sleep(query->level, mode_of(query->mode), [reply](Result<SleepReply> done) {
    if (!done.ok()) return send_error(*reply, command_error("sleep", done.error()));
    send_json(*reply, sleeping_body(done->level));
  });
}

void wake_up(EngineControl& control, const http::HttpRequest& request, Reply reply) {
  const auto tags = wake_tags(request.query_parameters());
  control.wake_up(tags, [reply, tags](Result<WakeReply> done) {
    if (!done.ok()) return send_error(*reply, command_error("wake_up", done.error()));
    send_json(*reply, woken_body(done->awake, tags, done->ignored));
  });
}

void release_kv_cache_memory(EngineControl& control, const http::HttpRequest&, Reply reply) {
  control.release_kv_cache_memory([reply](Status done) {
    if (!done.ok()) return send_error(*reply, command_error("release_kv_cache_memory", done.error()));
    send_json(*reply, status_body("kv_cache_released"));
  });
}

void abort_requests(EngineControl& control, const http::HttpRequest& request, Reply reply) {
  const auto ids = parse_abort_all_request(request.body);
  if (!ids.ok()) return send_error(*reply, ids.error());
  control.abort(*ids, [reply](Result<int> done) {
    if (!done.ok()) return send_flat_error(*reply, done.error(), "Failed to abort requests");
    send_json(*reply, aborted_body(*done));
  });
}

void reset_prefix_cache(EngineControl& control, const http::HttpRequest& request, Reply reply) {
  const auto flags = parse_reset_prefix_cache(request.query_parameters(), request.body);
  if (!flags.ok()) return send_error(*reply, flags.error());
  // reset_external is for a KV connector; without one there is nothing to reset, which is a success.
  control.reset_prefix_cache(flags->reset_running_requests, [reply](Result<bool> done) {
    if (!done.ok()) return send_error(*reply, command_error("reset_prefix_cache", done.error()));
    send_json(*reply, flag_body("success", *done));
  });
}

}  // namespace

void add_control_routes(const AddRoute& add, EngineControl& control) {
  const auto command = [&](const char* path, auto handler) {
    add("POST", path, [&control, handler](const http::HttpRequest& request, Reply reply) {
      handler(control, request, std::move(reply));
    });
  };
  command("/pause", pause);
  command("/resume", resume);
  command("/sleep", unspool::sleep);
  command("/wake_up", wake_up);
  command("/release_kv_cache_memory", release_kv_cache_memory);
  command("/abort_requests", abort_requests);
  command("/reset_prefix_cache", reset_prefix_cache);
  // Text models have neither cache: both are as empty as was asked.
  for (const char* path : {"/reset_mm_cache", "/reset_encoder_cache"}) {
    add("POST", path, [](const http::HttpRequest&, const Reply& reply) { send_empty(*reply); });
  }
  add("GET", "/is_paused", [&control](const http::HttpRequest&, const Reply& reply) {
    send_json(*reply, flag_body("is_paused", control.status().paused));
  });
  add("GET", "/is_sleeping", [&control](const http::HttpRequest&, const Reply& reply) {
    send_json(*reply, flag_body("is_sleeping", control.status().sleeping));
  });
}

}  // namespace unspool
