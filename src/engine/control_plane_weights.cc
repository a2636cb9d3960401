// The commands of the control plane that read or change weights.
#include "engine/attempt.h"
#include "engine/control_plane.h"

namespace unspool {

void ControlPlane::update_weight_version(std::string version, DoneCallback reply) {
  if (refused(Command::kUpdateWeightVersion, reply)) return;
  core_.state().set_weight_version(std::move(version));
  answer(reply, Status());
}

void ControlPlane::reload_weights(ReloadRequest request, DoneCallback reply) {
  if (refused(Command::kReloadWeights, reply)) return;
  if (memory_ == nullptr) return answer(reply, no_memory());
  reply = timed(update_metrics_, UpdateOperation::kReload, std::move(reply));
  const Status reloaded = attempt("The reload of the weights", [&] { return memory_->reload_weights(request); });
  // A refusal has changed nothing. What fails otherwise, or throws, has promised nothing.
  const bool lost = !reloaded.ok() && reloaded.error().kind == ErrorKind::kInternal;
  if (lost) core_.state().weights_lost();
  if (reloaded.ok()) core_.state().weights_loaded();
  if (reloaded.ok() || lost) core_.weights_changed();
  core_.state_changed();
  answer(reply, reloaded);
}

void ControlPlane::start_weight_update(ControlCallback<uint64_t> reply) {
  if (refused(Command::kStartUpdate, reply)) return;
  if (memory_ == nullptr) return answer(reply, no_memory());
  reply = timed(update_metrics_, UpdateOperation::kStart, std::move(reply));
  const Status begun = memory_->begin_update(session_ + 1);
  if (!begun.ok()) return answer(reply, begun.error());
  ++session_;
  core_.state().open_update();
  core_.state_changed();
  answer(reply, uint64_t{session_});
}

bool ControlPlane::is_open(uint64_t session, Command command, const DoneCallback& reply) {
  if (core_.state().update_open() && session == session_) return true;
  answer(reply, internal_error(order_error(command)));
  return false;
}

void ControlPlane::hold_for_update(uint64_t session, DoneCallback reply) {
  if (refused(Command::kHoldForUpdate, reply) || !is_open(session, Command::kHoldForUpdate, reply)) return;
  if (memory_->updates_in_place()) {
    core_.state().write_in_place();
    core_.state_changed();
  }
  answer(reply, Status());
}

void ControlPlane::finish_weight_update(uint64_t session, bool partial, std::optional<std::string> version,
                                        DoneCallback reply) {
  if (refused(Command::kFinishUpdate, reply) || !is_open(session, Command::kFinishUpdate, reply)) return;
  reply = timed(update_metrics_, UpdateOperation::kFinish, std::move(reply));
  const Result<bool> committed = attempt("The commit of the weights", [&] { return memory_->commit_update(partial); });
  if (!committed.ok()) return answer(reply, committed.error());
  EngineState& state = core_.state();
  state.end_update();
  if (*committed) state.weights_loaded();
  if (version) state.set_weight_version(*std::move(version));
  core_.weights_changed();
  core_.state_changed();
  answer(reply, Status());
}

void ControlPlane::drop_weight_update(uint64_t session, std::string why, DoneCallback reply) {
  if (refused(Command::kDropUpdate, reply)) return;
  if (core_.state().update_open() && session == session_) end_update(why);
  answer(reply, Status());
}

void ControlPlane::end_update(const std::string& why) {
  EngineState& state = core_.state();
  if (!state.update_open()) return;
  const bool lost = memory_->drop_update();
  state.end_update();
  if (lost) {
    state.weights_lost();
    core_.weights_changed();
  }
  core_.state_changed();
  log_warning("The weight update was dropped ({}). {}", why,
              lost ? "It was written in place: the weights are undefined until a whole set is loaded."
                   : "What was served before stays.");
}

void ControlPlane::weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) {
  if (refused(Command::kWeightChecksums, reply)) return;
  if (memory_ == nullptr) return answer(reply, no_memory());
  using Checksums = std::map<std::string, std::string>;
  answer(reply,
         attempt("The check of the weights", [&]() -> Result<Checksums> { return memory_->weight_checksums(); }));
}

// Nothing steps while it writes: what is saved is one set of weights.
void ControlPlane::save_weights(SaveRequest request, DoneCallback reply) {
  if (refused(Command::kSaveWeights, reply)) return;
  if (memory_ == nullptr) return answer(reply, no_memory());
  answer(reply, attempt("The save of the weights", [&] { return memory_->save_weights(request); }));
}

void ControlPlane::zero_weights(DoneCallback reply) {
  if (refused(Command::kZeroWeights, reply)) return;
  if (memory_ == nullptr) return answer(reply, no_memory());
  const Status zeroed = attempt("The reset of the weights", [&] {
    memory_->zero_weights();
    return Status();
  });
  core_.weights_changed();
  answer(reply, zeroed);
}

}  // namespace unspool
