#include "engine/control_plane.h"

#include <algorithm>
#include <utility>

namespace unspool {

namespace {

Command pause_command(PauseMode mode) {
  switch (mode) {
    case PauseMode::kAbort:
      return Command::kPauseAbort;
    case PauseMode::kWait:
      return Command::kPauseWait;
    case PauseMode::kKeep:
      break;
  }
  return Command::kPauseKeep;
}

Command sleep_command(int level) {
  return level == 0 ? Command::kSleep0 : level == 1 ? Command::kSleep1 : Command::kSleep2;
}

Error superseded(const std::string& by) {
  return {ErrorKind::kConflict, fmt::format("The wait was ended by {}, with requests in flight.", by), {}};
}

std::string python_list(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", item);
  return "[" + text + "]";
}

}  // namespace

ControlPlane::ControlPlane(EngineCore& core, const EngineDependencies& dependencies)
    : core_(core),
      memory_(dependencies.memory),
      sleep_(dependencies.memory, core.config().enable_sleep_mode),
      metrics_(dependencies.metrics, core.config()),
      update_metrics_(dependencies.metrics, core.config()) {
  publish();
}

void ControlPlane::pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) {
  if (refused(pause_command(mode), reply)) return;
  enter_pause(mode);
  after_pause(
      mode,
      [this, clear_cache, reply] {
        if (clear_cache) core_.clear_cache();
        answer(reply, PauseReply{});
      },
      [this, reply](Error error) { answer(reply, std::move(error)); });
}

void ControlPlane::enter_pause(PauseMode mode) {
  ++num_pauses_;
  const auto paused = mode == PauseMode::kKeep ? PauseState::kPausedAll : PauseState::kPausedNew;
  log_info("setting pause state to {}", paused == PauseState::kPausedAll ? "PAUSED_ALL" : "PAUSED_NEW");
  core_.state().set_paused(paused);
  core_.state_changed();
  if (mode == PauseMode::kAbort) core_.abort_all();
  if (mode == PauseMode::kKeep) end_waits(superseded("a pause in mode keep"));
}

void ControlPlane::after_pause(PauseMode mode, std::function<void()> then, std::function<void(Error)> ended) {
  if (mode == PauseMode::kKeep) return then();
  waits_.push_back({std::move(then), std::move(ended)});
  settle();
}

void ControlPlane::settle() {
  if (core_.state().failed()) end_waits({ErrorKind::kUnavailable, "The engine has failed.", {}});
  while (!waits_.empty() && drained()) {
    const Wait wait = std::move(waits_.front());
    waits_.pop_front();
    core_.state().set_draining(!waits_.empty());
    wait.drained();
  }
  core_.state().set_draining(!waits_.empty());
  publish();
}

void ControlPlane::end_waits(const Error& error) {
  core_.state().set_draining(false);
  for (const Wait& wait : std::exchange(waits_, {})) wait.ended(error);
}

void ControlPlane::unpause(const char* by) {
  end_waits(superseded(by));
  core_.state().set_paused(PauseState::kUnpaused);
  core_.state_changed();
  metrics_.set_awake();
}

void ControlPlane::resume(ControlCallback<PauseReply> reply) {
  if (refused(Command::kResume, reply)) return;
  const bool was_paused = core_.state().paused() != PauseState::kUnpaused;
  const bool mixed = was_paused && core_.holds_mixed_weights();
  if (was_paused) unpause("a resume");
  answer(reply, PauseReply{.mixed_weights = mixed});
}

void ControlPlane::sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) {
  if (refused(sleep_command(level), reply)) return;
  reply = timed(metrics_, Operation::kSleep, std::move(reply));
  // While a request runs its weights may still change; else what can fail comes before anything is given up.
  const bool backs_up_now = mode != PauseMode::kWait;
  if (backs_up_now) {
    if (level > 0) end_writing();
    if (Status backed_up = sleep_.back_up(core_.state(), level); !backed_up.ok()) {
      return answer(reply, backed_up.error());
    }
  }
  const PauseState before = core_.state().paused();
  enter_pause(mode);
  const int pause = num_pauses_;
  if (mode == PauseMode::kWait && !drained()) log_info("Waiting for in-flight requests to complete before sleeping...");
  after_pause(
      mode, [=, this] { fall_asleep(level, before, pause, backs_up_now, reply); },
      [this, reply](Error error) { answer(reply, std::move(error)); });
}

void ControlPlane::fall_asleep(int level, PauseState before, int pause, bool backed_up,
                               const ControlCallback<SleepReply>& reply) {
  EngineState& state = core_.state();
  if (level > 0) {
    const bool was_asleep = state.weights_asleep();
    end_writing();
    Status slept = backed_up ? Status() : sleep_.back_up(state, level);
    if (slept.ok()) {
      end_update("a sleep");
      core_.clear_cache();
      slept = sleep_.fall_asleep(state, level);
    }
    if (!slept.ok()) {
      // Not asleep, and not paused by what did not happen.
      if (pause == num_pauses_) state.set_paused(before);
      core_.state_changed();
      return answer(reply, slept.error());
    }
    core_.state_changed();
    if (!was_asleep) metrics_.set_asleep(level);
  } else if (!state.asleep()) {
    metrics_.set_asleep(0);
  }
  answer(reply, SleepReply{level});
}

void ControlPlane::wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) {
  if (refused(Command::kWakeAll, reply)) return;
  reply = timed(metrics_, Operation::kWake, std::move(reply));
  answer(reply, wake(tags));
}

Result<WakeReply> ControlPlane::wake(const std::optional<std::vector<std::string>>& tags) {
  EngineState& state = core_.state();
  const bool all = !tags || tags->empty();
  const auto names = [&](const char* tag) { return all || std::find(tags->begin(), tags->end(), tag) != tags->end(); };
  std::vector<std::string> ignored;
  for (const auto& tag : tags.value_or(std::vector<std::string>())) {
    if (tag == "weights" || tag == "kv_cache" || tag == "scheduling") continue;
    log_warning("Tag {} is not known; the call to wake up is ignored", tag);
    ignored.push_back(tag);
  }
  if (!ignored.empty()) return WakeReply{.awake = !state.asleep(), .ignored = std::move(ignored)};

  log_info("wake up the engine with tags: {}", all ? "None" : python_list(*tags));
  if (!state.asleep()) log_warning("Executor is not sleeping.");
  const Status woken = sleep_.wake(state, names("weights"), names("kv_cache"));
  if (!state.asleep() && state.paused() != PauseState::kUnpaused) unpause("a wake");
  core_.state_changed();
  if (!woken.ok()) return woken.error();
  return WakeReply{.awake = !state.asleep(), .ignored = {}};
}

void ControlPlane::release_kv_cache_memory(DoneCallback reply) {
  if (refused(Command::kReleaseKvCache, reply)) return;
  reply = timed(metrics_, Operation::kReleaseKvCache, std::move(reply));
  core_.clear_cache();
  const Status released = sleep_.release_kv_cache(core_.state());
  core_.state_changed();
  answer(reply, released);
}

void ControlPlane::reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) {
  if (refused(Command::kResetPrefixCache, reply)) return;
  if (reset_running_requests) core_.clear_cache();
  answer(reply, core_.reset_prefix_cache());
}

void ControlPlane::abort(std::vector<std::string> external_ids, ControlCallback<int> reply) {
  if (refused(Command::kAbort, reply)) return;
  const int count = external_ids.empty() ? core_.num_abortable() : static_cast<int>(external_ids.size());
  if (external_ids.empty()) {
    core_.abort_all();
  } else {
    core_.abort(external_ids);
  }
  answer(reply, count);
}

void ControlPlane::shut_down() {
  end_update("the shutdown");
  core_.abort_all();
  end_waits({ErrorKind::kUnavailable, "The server is shutting down.", {}});
}

void ControlPlane::publish() {
  std::lock_guard lock(mutex_);
  status_ = core_.state().status();
}

ControlStatus ControlPlane::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace unspool
