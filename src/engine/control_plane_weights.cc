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
  reply = timed(Operation::kReload, std::move(reply));
  const Status reloaded = attempt("The reload of the weights", [&] { return memory_->reload_weights(request); });
  // A refusal has changed nothing. What fails otherwise, or throws, has promised nothing.
  const bool lost = !reloaded.ok() && reloaded.error().kind == ErrorKind::kInternal;
  if (lost) core_.state().weights_lost();
  if (reloaded.ok()) core_.state().weights_loaded();
  if (reloaded.ok() || lost) core_.weights_changed();
  core_.state_changed();
  answer(reply, reloaded);
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
