// /collective_rpc: methods, arguments, and where weights may come from.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/sha256.h"
#include "fake_control.h"
#include "weights/checkpoint.h"

namespace unspool {
namespace {

namespace fs = std::filesystem;
using Calls = std::vector<std::string>;

TEST(CollectiveRpc, MethodsReachTheEngine) {
  DevServer server;
  for (const char* body : {
           R"({"method":"reload_weights"})",
           R"({"method":"reload_weights","kwargs":{"weights_path":"/d","is_checkpoint_format":false}})",
           R"({"method":"reload_weights","args":[null,"/d"]})",
           R"({"method":"sleep","args":["2"],"timeout":30})",
           R"({"method":"sleep","kwargs":{"level":0}})",
           R"({"method":"wake_up"})",
           R"({"method":"wake_up","args":[["weights"]]})",
           R"({"method":"reset_weights"})",
           R"({"method":"check_health","args":[],"kwargs":{}})",
           R"({"method":"synchronize_device"})",
           R"({"method":"reset_mm_cache"})",
           R"({"method":"save_sharded_state","args":["/s"]})",
           R"({"method":"save_sharded_state","kwargs":{"path":"/s","pattern":"p-{part}.safetensors","max_size":"9"}})",
           R"({"method":"discard","args":[["kv_cache"]]})",
           R"({"method":"update_config","args":[{"load_config":{"load_format":"auto"}}]})",
       }) {
    EXPECT_EQ(server.rpc(body), R"(200 {"results":[null]})") << body;
  }
  EXPECT_EQ(server.control.calls,
            (Calls{"reload '" UNSPOOL_TEST_DATA "/models/llama-gqa-tied' true", "reload '/d' false", "reload '/d' true",
                   "sleep 2 0", "sleep 0 0", "wake all", "wake weights", "zero",
                   "save '/s' 'model-rank-{rank}-part-{part}.safetensors' 0", "save '/s' 'p-{part}.safetensors' 9",
                   "release_kv_cache"}));
}

TEST(CollectiveRpc, Results) {
  DevServer server;
  EXPECT_EQ(server.rpc(R"({"method":"get_supported_tasks"})"), R"(200 {"results":[["generate"]]})");
  EXPECT_EQ(server.rpc(R"({"method":"list_loras"})"), R"-(200 {"results":["set()"]})-");
  EXPECT_EQ(server.rpc(R"({"method":"report_device_id"})"), R"(200 {"results":["cpu"]})");
  EXPECT_EQ(server.rpc(R"({"method":"compute_weight_checksums"})"),
            R"(200 {"results":[{"dp0:pp0:pcp0:tp0:a.weight":"aa","dp0:pp0:pcp0:tp0:b.weight":"bb"}]})");
}

TEST(CollectiveRpc, DummyWeights) {
  DevServer server({}, {{"a.weight", Shape{3}}, {"b.weight", Shape{2, 2}}});
  const std::string ask = R"({"method":"check_weights_changed"})", reload = R"({"method":"reload_weights"})";
  EXPECT_EQ(server.rpc(ask), R"(200 {"results":["True"]})");
  const Checkpoint dummies =
      Checkpoint::dummy("m", {{"a.weight", Shape{3}}, {"b.weight", Shape{2, 2}}}, DType::kBFloat16).value();
  server.control.checksums.clear();
  for (const std::string& name : dummies.names()) {
    const auto tensor = dummies.find(name);
    Sha256 hash;
    hash.add(tensor->bytes.data(), tensor->bytes.size());
    server.control.checksums.emplace(name, hash.hex());
  }
  EXPECT_EQ(server.rpc(ask), R"(200 {"results":["False"]})");
  EXPECT_TRUE(server.rpc(reload).starts_with("500 ")) << server.rpc(reload);
  EXPECT_NE(server.rpc(reload).find("Model reloading with `dummy` format"), std::string::npos);
  EXPECT_EQ(server.rpc(R"({"method":"update_config","args":[{"load_config":{}}]})"), R"(200 {"results":[null]})");
  EXPECT_TRUE(server.rpc(reload).starts_with("500 "));
  EXPECT_EQ(server.control.calls, (Calls{"checksums", "checksums"}));
  server.control.calls.clear();
  EXPECT_EQ(server.rpc(R"({"method":"reload_weights","args":[null,"/d"]})"), R"(200 {"results":[null]})");
  server.rpc(R"({"method":"update_config","args":[{"load_config":{"load_format":"auto"}}]})");
  EXPECT_EQ(server.rpc(reload), R"(200 {"results":[null]})");
  EXPECT_EQ(server.control.calls,
            (Calls{"reload '/d' true", "reload '" UNSPOOL_TEST_DATA "/models/llama-gqa-tied' true"}));
}

TEST(CollectiveRpc, WeightsThatChanged) {
  DevServer server;
  const std::string ask = R"({"method":"check_weights_changed"})";
  EXPECT_EQ(server.rpc(ask), R"(200 {"results":["True"]})") << "names that the checkpoint does not have";
  const auto checkpoint = Checkpoint::open(UNSPOOL_TEST_DATA "/models/llama-gqa-tied");
  ASSERT_TRUE(checkpoint.ok());
  server.control.checksums.clear();
  for (const std::string& name : checkpoint->names()) {
    const auto bytes = checkpoint->find(name)->bytes;
    Sha256 hash;
    hash.add(bytes.data(), bytes.size());
    server.control.checksums[name] = hash.hex();
  }
  EXPECT_EQ(server.rpc(ask), R"(200 {"results":["False"]})");
  server.control.checksums.begin()->second = "0";
  EXPECT_EQ(server.rpc(ask), R"(200 {"results":["True"]})");
}

TEST(CollectiveRpc, Refusals) {
  DevServer server;
  for (const char* body : {"{",
                           "[]",
                           "7",
                           "{}",
                           R"({"method":""})",
                           R"({"method":7})",
                           R"({"method":"sleep","args":2})",
                           R"({"method":"sleep","kwargs":[]})",
                           R"({"method":"sleep","args":[3]})",
                           R"({"method":"sleep","args":[1,2]})",
                           R"({"method":"sleep","kwargs":{"depth":1}})",
                           R"({"method":"sleep","args":[1],"kwargs":{"level":1}})",
                           R"({"method":"wake_up","args":["weights"]})",
                           R"({"method":"reload_weights","args":[[1]]})",
                           R"({"method":"reload_weights","kwargs":{"weights_path":7}})",
                           R"({"method":"reload_weights","kwargs":{"weights_path":"/d\u0000"}})",
                           R"({"method":"save_sharded_state"})",
                           R"({"method":"save_sharded_state","args":[""]})",
                           R"({"method":"save_sharded_state","args":["/s",7]})",
                           R"({"method":"save_sharded_state","args":["/s",null,0]})",
                           R"({"method":"save_sharded_state","args":["/s",null,"x"]})",
                           R"({"method":"discard"})",
                           R"({"method":"discard","args":[["weights"]]})",
                           R"({"method":"discard","args":[["kv_cache","weights"]]})",
                           R"({"method":"update_config"})",
                           R"({"method":"update_config","args":[{"load_config":{"load_format":"dummy"}}]})",
                           R"({"method":"update_config","args":[{"model_config":{"model":"/d"}}]})"}) {
    EXPECT_TRUE(server.rpc(body).starts_with("400 ")) << body << ": " << server.rpc(body);
  }
  EXPECT_NE(
      server.rpc("{\n \"method\" 1}").find("JSON decode error: Expecting ':' delimiter: line 2 column 11 (char 12)"),
      std::string::npos)
      << server.rpc("{\n \"method\" 1}");
  EXPECT_EQ(server.rpc(R"({"method":"nope"})"),
            R"(500 {"error":{"message":"Call to collective_rpc method failed: Worker failed with error ''CPUWorker' )"
            R"(object has no attribute 'nope'', please check the stack trace above for the root cause",)"
            R"("type":"InternalServerError","param":null,"code":500}})");
  EXPECT_TRUE(server.rpc(R"({"method":"start_weight_update"})").starts_with("500 "));
  for (const char* body :
       {R"({"method":"add_lora"})", R"({"method":"profile"})", R"({"method":"get_model_inspection"})"})
    EXPECT_TRUE(server.rpc(body).starts_with("500 ")) << body;
  EXPECT_EQ(server.control.calls, Calls{});
  server.control.error = not_found("there is no such directory");
  EXPECT_TRUE(server.rpc(R"({"method":"reload_weights","args":[null,"/d"]})").starts_with("404 "));
  server.control.error = Error{ErrorKind::kConflict, "weights are asleep", {}};
  EXPECT_TRUE(server.rpc(R"({"method":"compute_weight_checksums"})").starts_with("409 "));
}

class WeightRootsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(top_);
    for (const char* name : {"in/model", "in/linked", "out/model", "inside-out"}) fs::create_directories(top_ / name);
    std::ofstream(top_ / "out/model/model.safetensors") << "x";
    fs::create_symlink(top_ / "in", top_ / "alias");
    fs::create_directory_symlink(top_ / "out", top_ / "in/escape");
    fs::create_symlink(top_ / "out/model/model.safetensors", top_ / "in/linked/model.safetensors");
  }
  void TearDown() override { fs::remove_all(top_); }
  bool allows(const std::string& path, const std::string& root = "in") const {
    return WeightRoots({(top_ / root).string()}).resolve((top_ / path).string(), "path").ok();
  }
  const fs::path top_ = fs::path(::testing::TempDir()) / "weight_roots_test";
};

TEST_F(WeightRootsTest, OnlyBelowTheRoots) {
  EXPECT_TRUE(allows("in/model"));
  EXPECT_TRUE(allows("alias/model"));
  EXPECT_TRUE(allows("in/model", "alias"));
  EXPECT_TRUE(allows("out/../in/model"));
  EXPECT_TRUE(allows("in/missing")) << "the engine says that it is missing";
  for (const char* path : {"out/model", "in/../out/model", "in/escape/model", "inside-out", "in/linked", "missing"}) {
    EXPECT_FALSE(allows(path)) << path;
  }
  EXPECT_FALSE(WeightRoots({(top_ / "in").string()}).resolve("", "path").ok());
  EXPECT_TRUE(WeightRoots().resolve("/anywhere", "path").ok());
  EXPECT_FALSE(allows(std::string("in/model\0", 9)));
  EXPECT_FALSE(WeightRoots().resolve(std::string("/any\0where", 10), "path").ok());
}

TEST_F(WeightRootsTest, TheEngineGetsWhatWasChecked) {
  DevServer server({(top_ / "in").string()});
  const auto reload = [&](const std::string& path) {
    return server.rpc(
        fmt::format(R"({{"method":"reload_weights","kwargs":{{"weights_path":"{}"}}}})", (top_ / path).string()));
  };
  EXPECT_TRUE(reload("out/model").starts_with("403 "));
  EXPECT_TRUE(reload("alias/model").starts_with("200 "));
  EXPECT_TRUE(server.rpc(R"({"method":"reload_weights"})").starts_with("200 ")) << "the served checkpoint";
  EXPECT_TRUE(server.rpc(fmt::format(R"({{"method":"save_sharded_state","args":["{}"]}})", (top_ / "out/new").string()))
                  .starts_with("403 "));
  const std::string real = fs::canonical(top_ / "in/model").string();
  EXPECT_EQ(server.control.calls, (Calls{fmt::format("reload '{}' true", real),
                                         "reload '" UNSPOOL_TEST_DATA "/models/llama-gqa-tied' true"}));
}

}  // namespace
}  // namespace unspool
