// The core and its control plane on the fake model, one call at a time.
#pragma once

#include "core_harness.h"
#include "engine/control_plane.h"
#include "fake_memory.h"

namespace unspool {

// The answer to one command, which comes once.
template <class T>
class Answer {
 public:
  auto callback() {
    return [result = result_](T value) {
      EXPECT_FALSE(*result) << "answered twice";
      result->emplace(std::move(value));
    };
  }
  bool pending() const { return !result_->has_value(); }
  bool ok() const { return !pending() && (*result_)->ok(); }
  const auto& value() const { return (*result_)->value(); }
  std::string error() const { return pending() || ok() ? "" : (*result_)->error().message; }
  std::optional<ErrorKind> error_kind() const {
    if (pending() || ok()) return std::nullopt;
    return (*result_)->error().kind;
  }

 private:
  std::shared_ptr<std::optional<T>> result_ = std::make_shared<std::optional<T>>();  // may outlive the answer
};

using PauseAnswer = Answer<Result<PauseReply>>;
using SleepAnswer = Answer<Result<SleepReply>>;
using WakeAnswer = Answer<Result<WakeReply>>;
using DoneAnswer = Answer<Status>;
using BoolAnswer = Answer<Result<bool>>;
using CountAnswer = Answer<Result<int>>;
using SessionAnswer = Answer<Result<uint64_t>>;
using ChecksumsAnswer = Answer<Result<std::map<std::string, std::string>>>;

class ControlHarness {
 public:
  explicit ControlHarness(EngineConfig config = sleepy())
      : executor(config.num_blocks, config.block_size),
        memory(executor),
        pool(2),
        sampler(reference_vocab_kernels(), FakeExecutor::kVocab),
        core(config, dependencies(), 12345),
        control(core, dependencies()) {}

  static EngineConfig sleepy() {
    EngineConfig config = CoreHarness::roomy();
    config.enable_sleep_mode = true;
    return config;
  }

  uint64_t add(Record& record, EngineRequest request) {
    request.sink = record_into(record);
    core.add(++last_id, std::move(request));
    control.settle();
    return last_id;
  }
  // As the engine thread does: a step where there is work, and what it settles.
  void step(int count = 1) {
    for (; count > 0; --count) {
      if (core.has_work()) core.step();
      control.settle();
    }
  }
  void run(int max_steps = 20000) {
    while (core.has_work() && max_steps-- > 0) step();
    control.settle();
    EXPECT_FALSE(core.has_work()) << "still at work";
  }
  Situation situation() const { return core.state().situation(); }

  PauseAnswer pause(PauseMode mode, bool clear_cache = true) {
    PauseAnswer answer;
    control.pause(mode, clear_cache, answer.callback());
    return answer;
  }
  PauseAnswer resume() {
    PauseAnswer answer;
    control.resume(answer.callback());
    return answer;
  }
  SleepAnswer sleep(int level, PauseMode mode = PauseMode::kAbort) {
    SleepAnswer answer;
    control.sleep(level, mode, answer.callback());
    return answer;
  }
  WakeAnswer wake(std::optional<std::vector<std::string>> tags = {}) {
    WakeAnswer answer;
    control.wake_up(std::move(tags), answer.callback());
    return answer;
  }
  DoneAnswer release_kv_cache() {
    DoneAnswer answer;
    control.release_kv_cache_memory(answer.callback());
    return answer;
  }
  BoolAnswer reset_prefix_cache(bool reset_running) {
    BoolAnswer answer;
    control.reset_prefix_cache(reset_running, answer.callback());
    return answer;
  }
  CountAnswer abort(std::vector<std::string> ids = {}) {
    CountAnswer answer;
    control.abort(std::move(ids), answer.callback());
    control.settle();
    return answer;
  }
  DoneAnswer set_version(const std::string& version) {
    DoneAnswer answer;
    control.update_weight_version(version, answer.callback());
    return answer;
  }
  DoneAnswer reload(const std::string& path = "") {
    DoneAnswer answer;
    control.reload_weights({.weights_path = path}, answer.callback());
    control.settle();
    return answer;
  }
  ChecksumsAnswer checksums() {
    ChecksumsAnswer answer;
    control.weight_checksums(answer.callback());
    return answer;
  }
  DoneAnswer zero_weights() {
    DoneAnswer answer;
    control.zero_weights(answer.callback());
    return answer;
  }
  SessionAnswer start_update() {
    SessionAnswer answer;
    control.start_weight_update(answer.callback());
    return answer;
  }
  // Of the session that was started last.
  DoneAnswer hold_for_update() {
    DoneAnswer answer;
    control.hold_for_update(memory.update.value_or(0), answer.callback());
    return answer;
  }
  DoneAnswer finish_update(bool partial = false, std::optional<std::string> version = {}) {
    DoneAnswer answer;
    control.finish_weight_update(memory.update.value_or(0), partial, std::move(version), answer.callback());
    control.settle();
    return answer;
  }
  DoneAnswer drop_update() {
    DoneAnswer answer;
    control.drop_weight_update(memory.update.value_or(0), "the test says so", answer.callback());
    control.settle();
    return answer;
  }
  void settle() { control.settle(); }

  FakeExecutor executor;
  FakeMemory memory;
  ThreadPool pool;
  Sampler sampler;
  MetricsRegistry metrics;
  EngineCore core;
  ControlPlane control;
  uint64_t last_id = 0;

 private:
  EngineDependencies dependencies() { return {&executor, &sampler, &pool, nullptr, &metrics, &memory}; }
};

// The value of one line of /metrics; -1 where there is none.
inline double metric(const ControlHarness& h, const std::string& name, const std::string& label = "") {
  const std::string text = h.metrics.text();
  for (size_t at = text.find("\n" + name + "{"); at != std::string::npos; at = text.find("\n" + name + "{", at + 1)) {
    const std::string line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    if (line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ')));
  }
  return -1;
}

// A request with room for commands in its midst.
inline EngineRequest long_request(uint64_t prompt = 1, int n = 1) {
  auto request = request_of(random_prompt(21, prompt), 40);
  request.params.n = n;
  return request;
}

// The request alone, under those weights.
inline Record alone_under(uint64_t weights, EngineRequest request) {
  CoreHarness harness;
  harness.executor.weights = weights;
  Record record;
  harness.add(record, std::move(request));
  harness.run();
  return record;
}

}  // namespace unspool
