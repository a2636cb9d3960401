// Who may ask, and how much memory is taken where nobody says.
#include <gtest/gtest.h>

#include "server/api_key_filter.h"
#include "server/memory_budget.h"

namespace unspool {
namespace {

http::HttpRequest request(std::string path, std::string authorization = {}, std::string method = "GET") {
  http::HttpRequest out;
  out.method = std::move(method);
  out.path = std::move(path);
  if (!authorization.empty()) out.headers.emplace_back("authorization", std::move(authorization));
  return out;
}

TEST(ApiKeys, EverythingIsGuardedButAShortList) {
  const ApiKeyFilter filter({"first", "second"}, "/proxy");
  for (const char* open : {"/health", "/ping", "/version", "/metrics", "/proxy/health"}) {
    EXPECT_TRUE(filter.admits(request(open))) << open;
  }
  for (const char* guarded : {"/v1/completions", "/tokenize", "/load", "/", "/healthy", "/health/x", "/V1/models",
                              "//health", "/proxy/tokenize", "/nowhere"}) {
    EXPECT_FALSE(filter.admits(request(guarded))) << guarded;
    EXPECT_TRUE(filter.admits(request(guarded, "Bearer first"))) << guarded;
  }
  EXPECT_TRUE(filter.admits(request("/tokenize", {}, "OPTIONS")));
}

TEST(ApiKeys, TheWholeKeyAndNothingElse) {
  const ApiKeyFilter filter({"first", "second"}, "");
  for (const char* good : {"Bearer first", "bearer second", "BEARER first"}) {
    EXPECT_TRUE(filter.admits(request("/load", good))) << good;
  }
  for (const char* bad : {"first", "Basic first", "Bearer", "Bearer ", "Bearer  first", "Bearer firs",
                          "Bearer firstfirst", "Bearer first ", "Bearer thirsd"}) {
    EXPECT_FALSE(filter.admits(request("/load", bad))) << bad;
  }
  EXPECT_TRUE(ApiKeyFilter({}, "").admits(request("/load")));
}

TEST(ApiKeys, DevelopmentRoutes) {
  for (const char* route : {"/pause", "/collective_rpc", "/server_info", "/proxy/sleep"}) {
    EXPECT_FALSE(ApiKeyFilter({"key"}, "/proxy").admits(request(route))) << route;
    EXPECT_TRUE(ApiKeyFilter({"key"}, "/proxy", true).admits(request(route))) << route;
  }
  for (const char* guarded : {"/v1/completions", "/tokenize", "/pause/now", "/inference/v1/generate"}) {
    EXPECT_FALSE(ApiKeyFilter({"key"}, "/proxy", true).admits(request(guarded))) << guarded;
  }
}

TEST(MemoryBudget, TwoGibibytesOrAQuarter) {
  EXPECT_EQ(default_kv_cache_bytes(int64_t{100} << 30), int64_t{2} << 30);
  EXPECT_EQ(default_kv_cache_bytes(int64_t{4} << 30), int64_t{1} << 30);
  EXPECT_EQ(parse_mem_available("MemTotal: 9 kB\nMemAvailable:   1234 kB\n"), 1234 * 1024);
  EXPECT_EQ(parse_mem_available("nothing"), 0);
  EXPECT_GT(available_memory_bytes(), 0);
}

}  // namespace
}  // namespace unspool
