// An engine's control plane that notes what it is asked and answers what it is told to, and replies that are kept.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/control.h"
#include "server/dev_routes.h"

namespace unspool {

class FakeControl final : public EngineControl {
 public:
  std::vector<std::string> calls;
  std::optional<Error> error;  // what every command fails with
  ControlStatus now{.weight_version = "default"};
  bool mixed_weights = false;
  bool reset_succeeds = true;
  WakeReply wake{.awake = true, .ignored = {}};
  std::map<std::string, std::string> checksums = {{"a.weight", "aa"}, {"b.weight", "bb"}};
  std::vector<ControlCallback<PauseReply>> pending;  // pauses that wait, where `hold_pauses`
  bool hold_pauses = false;
  uint64_t session = 0;
  std::atomic<bool> dropped = false;  // a session was, by whoever runs beside the test

  void pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) override {
    constexpr const char* kNames[] = {"abort", "wait", "keep"};
    calls.push_back(fmt::format("pause {} {}", kNames[static_cast<int>(mode)], clear_cache));
    if (hold_pauses) return pending.push_back(std::move(reply));
    answer(reply, PauseReply{});
  }
  void resume(ControlCallback<PauseReply> reply) override {
    calls.emplace_back("resume");
    answer(reply, PauseReply{mixed_weights});
  }
  void sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) override {
    calls.push_back(fmt::format("sleep {} {}", level, static_cast<int>(mode)));
    answer(reply, SleepReply{level});
  }
  void wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) override {
    calls.push_back(tags ? fmt::format("wake {}", fmt::join(*tags, ",")) : "wake all");
    answer(reply, wake);
  }
  void release_kv_cache_memory(DoneCallback reply) override { note("release_kv_cache", reply); }
  void reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) override {
    calls.push_back(fmt::format("reset_prefix_cache {}", reset_running_requests));
    answer(reply, bool{reset_succeeds});
  }
  void abort(std::vector<std::string> external_ids, ControlCallback<int> reply) override {
    calls.push_back(fmt::format("abort {}", fmt::join(external_ids, ",")));
    answer(reply, static_cast<int>(external_ids.size()));
  }
  void update_weight_version(std::string version, DoneCallback reply) override { note("version " + version, reply); }
  void reload_weights(ReloadRequest request, DoneCallback reply) override {
    note(fmt::format("reload '{}' {}", request.weights_path, request.is_checkpoint_format), reply);
  }
  void weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) override {
    calls.emplace_back("checksums");
    answer(reply, std::map(checksums));
  }
  void save_weights(SaveRequest request, DoneCallback reply) override {
    note(fmt::format("save '{}' '{}' {}", request.path, request.pattern, request.max_size.value_or(0)), reply);
  }
  void zero_weights(DoneCallback reply) override { note("zero", reply); }
  void start_weight_update(ControlCallback<uint64_t> reply) override {
    calls.emplace_back("start");
    now.update_open = !error;
    answer(reply, uint64_t{++session});
  }
  void hold_for_update(uint64_t of, DoneCallback reply) override { note(fmt::format("hold {}", of), reply); }
  void finish_weight_update(uint64_t of, bool partial, std::optional<std::string> version,
                            DoneCallback reply) override {
    now.update_open &= error.has_value();
    note(fmt::format("finish {} {} {}", of, partial ? "partial" : "whole", version.value_or("-")), reply);
  }
  void drop_weight_update(uint64_t of, std::string why, DoneCallback reply) override {
    now.update_open = false;
    note(fmt::format("drop {}: {}", of, why), reply);
    dropped = true;
  }
  ControlStatus status() const override { return now; }

 private:
  template <class T>
  void answer(const ControlCallback<T>& reply, T value) {
    error ? reply(*error) : reply(std::move(value));
  }
  void note(std::string call, const DoneCallback& reply) {
    calls.push_back(std::move(call));
    reply(error ? Status(*error) : Status());
  }
};

class KeptReply final : public http::Responder {
 public:
  int num_sent = 0;
  http::HttpResponse response;

  void send(http::HttpResponse sent) override {
    ++num_sent;
    response = std::move(sent);
  }
  void start(int, std::string, std::vector<std::pair<std::string, std::string>>) override {}
  void write(std::string) override {}
  void finish() override {}
  size_t backlog_bytes() const override { return 0; }
  void on_disconnect(std::function<void()>) override {}
};

// The routes over a fake engine.
struct DevServer {
  FakeControl control;
  std::map<std::string, http::Handler> routes;  // "POST /pause"

  explicit DevServer(std::vector<std::string> weight_directories = {}, std::vector<DummyTensor> dummies = {}) {
    const AddRoute add = [this](const char* method, const char* path, http::Handler handler) {
      routes[fmt::format("{} {}", method, path)] = std::move(handler);
    };
    add_control_routes(add, control);
    const WeightRoots roots(std::move(weight_directories));
    add_weight_routes(add, control);
    add_transfer_routes(add, control, nullptr, roots);
    add_areal_routes(add, control, roots);
    add_rpc_route(add, control, nullptr, roots,
                  {UNSPOOL_TEST_DATA "/models/llama-gqa-tied", DType::kBFloat16, std::move(dummies)});
  }

  // `target` may have a query.
  std::shared_ptr<KeptReply> ask(const std::string& method, std::string target, std::string body = {}) {
    http::HttpRequest request;
    request.method = method;
    const size_t mark = std::min(target.find('?'), target.size());
    if (mark < target.size()) request.query = target.substr(mark + 1);
    request.path = target.substr(0, mark);
    request.body = std::move(body);
    auto reply = std::make_shared<KeptReply>();
    routes.at(method + " " + request.path)(request, reply);
    return reply;
  }
  // "200 {...}"
  std::string post(std::string target, std::string body = {}) {
    const auto reply = ask("POST", std::move(target), std::move(body));
    return fmt::format("{} {}", reply->response.status, reply->response.body);
  }
  std::string get(std::string target) {
    const auto reply = ask("GET", std::move(target));
    return fmt::format("{} {}", reply->response.status, reply->response.body);
  }
  std::string rpc(const std::string& body) { return post("/collective_rpc", body); }
};

}  // namespace unspool
