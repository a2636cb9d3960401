#include "engine/engine_state.h"

#include <fmt/format.h>

#include <utility>

namespace unspool {

namespace {

const char* command_path(Command command) {
  switch (command) {
    case Command::kResume:
      return "resume";
    case Command::kReloadWeights:
      return "reload the weights";
    case Command::kWeightChecksums:
      return "check the weights";
    case Command::kZeroWeights:
      return "reset the weights";
    case Command::kStartUpdate:
      return "start a weight update";
    case Command::kHoldForUpdate:
      return "update the weights";
    case Command::kFinishUpdate:
      return "finish a weight update";
    case Command::kSaveWeights:
      return "save the weights";
    default:
      return to_string(command);
  }
}

}  // namespace

// As the reference says it.
const char* order_error(Command command) {
  switch (command) {
    case Command::kStartUpdate:
      return "start_weight_update called while a weight update is already active. Call finish_weight_update first.";
    case Command::kHoldForUpdate:
      return "start_weight_update must be called before update_weights.";
    case Command::kFinishUpdate:
      return "finish_weight_update called without a matching start_weight_update.";
    default:
      return "KV cache memory can only be released while the scheduler is paused, no request runs and all memory is "
             "awake.";
  }
}

Situation EngineState::situation() const {
  if (failed_) return Situation::kFailed;
  if (weights_asleep_ && kv_cache_asleep_) return weights_kept_ ? Situation::kAsleep1 : Situation::kAsleep2;
  if (weights_asleep_) return weights_kept_ ? Situation::kWeightsAsleep1 : Situation::kWeightsAsleep2;
  if (writing_) return kv_cache_asleep_ ? Situation::kUpdateWritingKvAsleep : Situation::kUpdateWriting;
  if (update_open_) return kv_cache_asleep_ ? Situation::kUpdateOpenKvAsleep : Situation::kUpdateOpen;
  if (kv_cache_asleep_) return weights_discarded_ ? Situation::kKvCacheAsleepDiscarded : Situation::kKvCacheAsleep;
  if (weights_discarded_) return Situation::kDiscarded;
  if (draining_) return Situation::kDraining;
  if (paused_ == PauseState::kPausedAll) return Situation::kPausedAll;
  return paused_ == PauseState::kPausedNew ? Situation::kPausedNew : Situation::kAwake;
}

std::string EngineState::obstacle(Command command) const {
  // A cache that sleeps is in the way of a resume alone.
  if (weights_asleep_ || command == Command::kResume) {
    const char* tags = !kv_cache_asleep_ ? "weights is" : !weights_asleep_ ? "kv_cache is" : "weights, kv_cache are";
    return fmt::format("{} asleep. Call /wake_up first.", tags);
  }
  if (update_open_) return "a weight update session is open. Finish it first.";
  return "the weights were discarded and not loaded again. Load them first.";
}

std::optional<Error> EngineState::refusal(Command command) const {
  switch (cell(command).outcome) {
    case Outcome::kConflict:
      return Error{ErrorKind::kConflict, fmt::format("Cannot {}: {}", command_path(command), obstacle(command)), {}};
    case Outcome::kInternal:
      if (failed_) return internal_error("The engine has failed.");
      return internal_error(order_error(command));
    case Outcome::kUnavailable:
      if (failed_) return Error{ErrorKind::kUnavailable, "The engine has failed.", {}};
      return Error{ErrorKind::kUnavailable,
                   "The weights were discarded by /sleep?level=2, or by an update in place that did not finish, and "
                   "not loaded again. Load them with "
                   "/collective_rpc reload_weights or a whole weight update; then send the request again.",
                   {}};
    case Outcome::kDone:
    case Outcome::kDrained:
    case Outcome::kNothing:
    case Outcome::kWaits:
      break;
  }
  return std::nullopt;
}

ControlStatus EngineState::status() const {
  const bool paused = paused_ != PauseState::kUnpaused || asleep();
  return {.paused = paused,
          .sleeping = paused,
          .weights_asleep = weights_asleep_,
          .kv_cache_asleep = kv_cache_asleep_,
          .weights_discarded = weights_discarded_,
          .update_open = update_open_,
          .weight_version = weight_version_};
}

void EngineState::fall_asleep(bool kept) {
  weights_asleep_ = kv_cache_asleep_ = true;
  weights_kept_ = kept;
  end_update();
}

void EngineState::wake_weights() {
  weights_asleep_ = false;
  if (!weights_kept_) weights_discarded_ = true;
}

std::vector<std::string> EngineState::validate() const {
  std::vector<std::string> violations;
  if (asleep() && paused_ == PauseState::kUnpaused)
    violations.push_back("memory is asleep and the scheduler is not paused");
  if (weights_asleep_ && update_open_) violations.push_back("an update is open and the weights are asleep");
  if (writing_ && !update_open_) violations.push_back("weights are written without an update");
  return violations;
}

}  // namespace unspool
