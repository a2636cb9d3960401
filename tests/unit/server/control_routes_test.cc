// The development routes over a fake engine: what reaches it, and what is answered.
#include <gtest/gtest.h>

#include <set>

#include "fake_control.h"
#include "server/replies.h"

namespace unspool {
namespace {

using Calls = std::vector<std::string>;

TEST(ControlRoutes, Pause) {
  DevServer server;
  EXPECT_EQ(server.post("/pause"), R"(200 {"status":"paused"})");
  EXPECT_EQ(server.post("/pause?mode=keep&clear_cache=false", R"({"mode":"wait"})"), R"(200 {"status":"paused"})");
  EXPECT_EQ(server.post("/pause?mode=abort&mode=wait&clear_cache=0&other=1"), R"(200 {"status":"paused"})");
  EXPECT_EQ(server.post("/resume"), R"(200 {"status":"resumed"})");
  EXPECT_EQ(server.control.calls, (Calls{"pause abort true", "pause keep false", "pause wait false", "resume"}));
  server.control.mixed_weights = true;
  EXPECT_EQ(server.post("/resume"), R"(200 {"status":"resumed","mixed_weights":true})");
}

TEST(ControlRoutes, WhatOnlyLooksDoesNotWait) {
  DevServer server;
  server.control.hold_pauses = true;
  server.control.now.paused = server.control.now.sleeping = true;
  const auto pause = server.ask("POST", "/pause?mode=wait");
  EXPECT_EQ(server.get("/is_paused"), R"(200 {"is_paused":true})");
  EXPECT_EQ(server.get("/is_sleeping"), R"(200 {"is_sleeping":true})");
  EXPECT_EQ(pause->num_sent, 0);
  server.control.pending.front()(PauseReply{});
  EXPECT_EQ(pause->num_sent, 1);
}

TEST(ControlRoutes, SleepAndWake) {
  DevServer server;
  EXPECT_EQ(server.post("/sleep", R"({"level":2})"), R"(200 {"status":"sleeping","level":1})");
  EXPECT_EQ(server.post("/sleep?level=0&mode=keep"), R"(200 {"status":"sleeping","level":0})");
  EXPECT_EQ(server.post("/wake_up"), R"(200 {"status":"awake","tags":null})");
  server.control.wake.awake = false;
  EXPECT_EQ(server.post("/wake_up?tags=weights&tags=kv_cache"),
            R"(200 {"status":"sleeping","tags":["weights","kv_cache"]})");
  server.control.wake.ignored = {"nope"};
  EXPECT_EQ(server.post("/wake_up?tags=nope"), R"(200 {"status":"sleeping","tags":["nope"],"ignored":["nope"]})");
  EXPECT_EQ(server.post("/release_kv_cache_memory"), R"(200 {"status":"kv_cache_released"})");
  EXPECT_EQ(server.control.calls,
            (Calls{"sleep 1 0", "sleep 0 2", "wake all", "wake weights,kv_cache", "wake nope", "release_kv_cache"}));
}

TEST(ControlRoutes, FaultyQueriesReachNobody) {
  DevServer server;
  for (const auto& [target, param] : std::vector<std::pair<std::string, std::string>>{
           {"/pause?mode=foo", "query.mode"},
           {"/pause?mode=", "query.mode"},
           {"/pause?clear_cache=maybe", "query.clear_cache"},
           {"/sleep?level=3", "query.level"},
           {"/sleep?level=-1", "query.level"},
           {"/sleep?level=one", "query.level"},
           {"/sleep?mode=Abort", "query.mode"},
           {"/reset_prefix_cache?reset_running_requests=2", "query.reset_running_requests"}}) {
    const std::string reply = server.post(target);
    EXPECT_TRUE(reply.starts_with("400 ")) << target << ": " << reply;
    EXPECT_NE(reply.find(fmt::format(R"("type":"Bad Request","param":"{}")", param)), reply.npos) << reply;
  }
  EXPECT_EQ(server.control.calls, Calls{});
}

TEST(ControlRoutes, WhatTheEngineRefuses) {
  DevServer server;
  server.control.error = Error{ErrorKind::kConflict, "weights are asleep", {}};
  EXPECT_EQ(server.post("/resume"), R"(409 {"error":"weights are asleep"})");
  for (const char* target : {"/sleep", "/wake_up", "/release_kv_cache_memory", "/reset_prefix_cache"}) {
    EXPECT_EQ(server.post(target),
              R"(409 {"error":{"message":"weights are asleep","type":"Conflict","param":null,"code":409}})");
  }
  server.control.error = internal_error("no");
  EXPECT_EQ(server.post("/pause"), R"(500 {"error":"Failed to pause generation: no"})");
  EXPECT_EQ(server.post("/resume"), R"(500 {"error":"Failed to resume generation: no"})");
  EXPECT_NE(server.post("/sleep").find("Call to sleep method failed: no"), std::string::npos);
  server.control.error = Error{ErrorKind::kUnavailable, "shutting down", {}};
  const auto reply = server.ask("POST", "/wake_up");
  EXPECT_EQ(reply->response.status, 503);
  EXPECT_EQ(reply->response.headers.front(), std::pair(std::string("Retry-After"), std::string("1")));
}

TEST(ControlRoutes, ResetFlagsFromQueryOrBody) {
  DevServer server;
  EXPECT_EQ(server.post("/reset_prefix_cache"), R"(200 {"success":true})");
  server.post("/reset_prefix_cache?reset_running_requests=true&reset_external=true");
  server.post("/reset_prefix_cache", R"({"reset_running_requests":true})");
  server.post("/reset_prefix_cache?reset_running_requests=false", R"({"reset_running_requests":true})");
  server.post("/reset_prefix_cache", "not json");
  server.post("/reset_prefix_cache", "[true]");
  EXPECT_EQ(server.control.calls,
            (Calls{"reset_prefix_cache false", "reset_prefix_cache true", "reset_prefix_cache true",
                   "reset_prefix_cache false", "reset_prefix_cache false", "reset_prefix_cache false"}));
  EXPECT_TRUE(server.post("/reset_prefix_cache", R"({"reset_running_requests":"often"})").starts_with("400 "));
  server.control.reset_succeeds = false;
  EXPECT_EQ(server.post("/reset_prefix_cache"), R"(200 {"success":false})");
  EXPECT_EQ(server.post("/reset_mm_cache"), "200 ");
  EXPECT_EQ(server.post("/reset_encoder_cache"), "200 ");
}

TEST(ControlRoutes, AbortsNeverWidenByMistake) {
  DevServer server;
  EXPECT_EQ(server.post("/abort_requests", R"({"request_ids":["a","b"]})"), R"(200 {"status":"aborted","aborted":2})");
  EXPECT_EQ(server.post("/abort_requests", "{}"), R"(200 {"status":"aborted","aborted":0})");
  EXPECT_EQ(server.post("/abort_requests", R"({"request_ids":[]})"), R"(200 {"status":"aborted","aborted":0})");
  EXPECT_EQ(server.control.calls, (Calls{"abort a,b", "abort ", "abort "}));
  for (const char* body : {"", "[1", "[]", R"({"request_ids":"a"})", R"({"request_ids":[1]})",
                           R"({"request_ids":{"a":1}})", R"({"request_ids":["a",null]})"}) {
    EXPECT_TRUE(server.post("/abort_requests", body).starts_with("400 ")) << body;
  }
  EXPECT_EQ(server.control.calls.size(), 3u);
}

TEST(WeightRoutes, Versions) {
  DevServer server;
  server.control.now.weight_version = "v\"7";
  EXPECT_TRUE(server.get("/weight_info").starts_with(R"(200 {"weight_version":"v\"7")"));
  EXPECT_EQ(server.post("/update_weight_version", R"({"new_version":"v8"})"),
            R"(200 {"success":true,"new_version":"v8"})");
  EXPECT_EQ(server.control.calls, Calls{"version v8"});
  for (const char* body : {"", "{}", "[]", R"({"new_version":7})", R"({"new_version":null})", "{"}) {
    EXPECT_TRUE(server.post("/update_weight_version", body).starts_with("400 ")) << body;
  }
  EXPECT_EQ(server.get("/get_world_size?include_dp=false"), R"(200 {"world_size":1})");
  EXPECT_TRUE(server.get("/get_world_size?include_dp=so").starts_with("400 "));
}

TEST(WeightRoutes, Checker) {
  DevServer server;
  EXPECT_EQ(server.post("/weight_checker", R"({"action":"checksum"})"),
            R"(200 {"checksums":{"dp0:pp0:pcp0:tp0:a.weight":"aa","dp0:pp0:pcp0:tp0:b.weight":"bb"}})");
  EXPECT_EQ(server.post("/weight_checker", R"({"action":"compare","baseline":{"dp0:pp0:pcp0:tp0:a.weight":"aa",
                                              "dp0:pp0:pcp0:tp0:b.weight":"bb"}})"),
            R"(200 {"match":true,"mismatches":[]})");
  EXPECT_EQ(server.post("/weight_checker", R"({"action":"compare","baseline":{"dp0:pp0:pcp0:tp0:a.weight":"ab",
                                              "z":"bb"}})"),
            R"(200 {"match":false,"mismatches":["dp0:pp0:pcp0:tp0:a.weight","dp0:pp0:pcp0:tp0:b.weight","z"]})");
  EXPECT_EQ(server.post("/weight_checker", R"({"action":"compare"})"),
            R"(400 {"error":{"message":"action='compare' requires a 'baseline' object","type":"Bad Request",)"
            R"("param":null,"code":400}})");
  EXPECT_EQ(server.post("/weight_checker", R"({"action":"reset"})"), R"(200 {"status":"reset"})");
  EXPECT_EQ(server.control.calls.back(), "zero");
  for (const char* body : {"", "{}", R"({"action":"look"})", R"({"action":"compare","baseline":[]})",
                           R"({"action":"compare","baseline":{"a":1}})"}) {
    EXPECT_TRUE(server.post("/weight_checker", body).starts_with("400 ")) << body;
  }
}

TEST(WeightRoutes, TransferIsNotConfigured) {
  DevServer server;
  for (const auto& [target, body] :
       std::vector<std::pair<std::string, std::string>>{{"/init_weight_transfer_engine", R"({"init_info":{}})"},
                                                        {"/start_weight_update", R"({"is_checkpoint_format":true})"},
                                                        {"/start_draft_weight_update", ""},
                                                        {"/update_weights", R"({"update_info":[{},{}]})"},
                                                        {"/finish_weight_update", ""},
                                                        {"/finish_weight_update", R"({"weight_version":null})"}}) {
    const std::string reply = server.post(target, body);
    EXPECT_TRUE(reply.starts_with("500 ")) << target << ": " << reply;
    EXPECT_NE(reply.find("Weight transfer not configured"), reply.npos) << reply;
  }
  EXPECT_EQ(server.post("/shutdown_weight_transfer_engine"), R"(200 {"message":"Weight transfer shut down"})");
  EXPECT_TRUE(server.post("/init_weight_transfer_engine", "{}").starts_with("400 "));
  EXPECT_TRUE(server.post("/init_weight_transfer_engine", R"({"init_info":[]})").starts_with("400 "));
  EXPECT_TRUE(server.post("/update_weights", "{}").starts_with("400 "));
  EXPECT_TRUE(server.post("/update_weights", R"({"update_info":"x"})").starts_with("400 "));
  EXPECT_TRUE(server.post("/finish_weight_update", R"({"weight_version":7})").starts_with("400 "));
}

TEST(DevRoutes, TheListOfPathsIsTheRoutes) {
  const DevServer server;
  std::set<std::string> paths;
  for (const auto& [route, handler] : server.routes) paths.insert(route.substr(route.find(' ') + 1));
  for (const std::string& path : paths) EXPECT_TRUE(is_dev_route(path)) << path;
  EXPECT_EQ(paths.size(), 25u);
  EXPECT_TRUE(is_dev_route("/server_info"));
  for (const char* other : {"/", "/pause/", "/v1/completions", "/inference/v1/abort_requests", "/tokenize"}) {
    EXPECT_FALSE(is_dev_route(other)) << other;
  }
}

TEST(Replies, HeadersCannotBeSplit) {
  EXPECT_EQ(header_text("v 7\r\nX: y\xC3\xA4%"), "v 7%0D%0AX: y%C3%A4%25");
}

}  // namespace
}  // namespace unspool
