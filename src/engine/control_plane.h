// The control plane's commands, on the engine thread, between two steps. What each may do is in the table
// (engine_state.h); how it is done is here.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "engine/control.h"
#include "engine/control_metrics.h"
#include "engine/engine_core.h"
#include "engine/memory_sleep.h"

namespace unspool {

// Each command is answered exactly once: at once, or, for pause and sleep in mode wait, by settle() when nothing is in
// flight, or by what comes in between.
class ControlPlane final : public EngineControl {
 public:
  ControlPlane(EngineCore& core, const EngineDependencies& dependencies);

  void pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) override;
  void resume(ControlCallback<PauseReply> reply) override;
  void sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) override;
  void wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) override;
  void release_kv_cache_memory(DoneCallback reply) override;
  void reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) override;
  void abort(std::vector<std::string> external_ids, ControlCallback<int> reply) override;
  void update_weight_version(std::string version, DoneCallback reply) override;
  void reload_weights(ReloadRequest request, DoneCallback reply) override;
  void weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) override;
  void zero_weights(DoneCallback reply) override;
  void start_weight_update(ControlCallback<uint64_t> reply) override;
  void hold_for_update(uint64_t session, DoneCallback reply) override;
  void finish_weight_update(uint64_t session, bool partial, std::optional<std::string> version,
                            DoneCallback reply) override;
  void drop_weight_update(uint64_t session, std::string why, DoneCallback reply) override;
  ControlStatus status() const override;  // on any thread

  // After every step and every message to the engine.
  void settle();
  // No command comes after this one.
  void shut_down();

 private:
  // A pause or sleep that waits until nothing is in flight.
  struct Wait {
    std::function<void()> drained;
    std::function<void(Error)> ended;
  };

  using Operation = ControlMetrics::Operation;
  using UpdateOperation = WeightUpdateMetrics::Operation;

  template <class Reply>
  bool refused(Command command, const Reply& reply);
  template <class Reply, class Value>
  void answer(const Reply& reply, Value value);
  // Times an operation from here to its answer.
  template <class Metrics, class Reply>
  Reply timed(Metrics& metrics, typename Metrics::Operation operation, Reply reply);
  Error no_memory() const { return internal_error("There is no model whose weights could be reached."); }
  void enter_pause(PauseMode mode);
  // Runs `then` now, or, in mode wait, once nothing is in flight.
  void after_pause(PauseMode mode, std::function<void()> then, std::function<void(Error)> ended);
  void unpause(const char* by);
  void fall_asleep(int level, PauseState before, int pause, bool backed_up, const ControlCallback<SleepReply>& reply);
  Result<WakeReply> wake(const std::optional<std::vector<std::string>>& tags);
  void end_waits(const Error& error);
  // Drops the open update, if there is one; if it writes in place.
  void end_update(const std::string& why);
  void end_writing() {
    if (core_.state().writing()) end_update("a sleep");
  }
  // Whether the session is open; else the answer is that of a command out of order.
  bool is_open(uint64_t session, Command command, const DoneCallback& reply);
  bool drained() const { return core_.num_in_flight() == 0 || !core_.state().has_model(); }
  void publish();

  EngineCore& core_;
  ModelMemory* memory_;
  MemorySleep sleep_;
  ControlMetrics metrics_;
  WeightUpdateMetrics update_metrics_;
  std::deque<Wait> waits_;  // in the order they came
  int num_pauses_ = 0;      // so that a sleep that fails knows whether the pause is still its own
  uint64_t session_ = 0;    // of updates: the open one or the last

  mutable std::mutex mutex_;
  ControlStatus status_;  // guarded by mutex_
};

template <class Reply>
bool ControlPlane::refused(Command command, const Reply& reply) {
  auto error = core_.state().refusal(command);
  if (!error) return false;
  answer(reply, *std::move(error));
  return true;
}

template <class Reply, class Value>
void ControlPlane::answer(const Reply& reply, Value value) {
  publish();  // who has the answer finds the status to go with it
  if (!reply) return;
  try {
    reply(std::move(value));
  } catch (const std::exception& e) {
    log_error("an answer was lost: {}", e.what());
  }
}

template <class Metrics, class Reply>
Reply ControlPlane::timed(Metrics& metrics, typename Metrics::Operation operation, Reply reply) {
  metrics.begin(operation);
  return [&metrics, operation, start_s = monotonic_seconds(), reply = std::move(reply)](auto result) {
    metrics.end(operation, monotonic_seconds() - start_s);
    if (reply) reply(std::move(result));
  };
}

}  // namespace unspool
