// Where the engine stands between two steps, and what it answers there: every command in every situation is a cell of
// one table, from which docs/control.md is made and a test visits each cell.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/control.h"
#include "scheduler/scheduler.h"

namespace unspool {

// The first that holds, from the end of the list on.
enum class Situation {
  kAwake,
  kPausedNew,           // what was in flight has ended, or ends without being waited for
  kPausedAll,           // requests are frozen
  kDraining,            // a pause or sleep in mode wait has not been answered yet
  kDiscarded,           // awake after level 2, and the weights not loaded again; paused or not
  kUpdateOpen,          // a session of weight updates; paused or not
  kUpdateOpenKvAsleep,  // the same, before the cache was woken
  kUpdateWriting,       // weights are being written in place; paused or not
  kUpdateWritingKvAsleep,
  kKvCacheAsleep,  // with weights that can be used
  kKvCacheAsleepDiscarded,
  kWeightsAsleep1,  // the cache is awake; 1: a wake brings the weights back, 2: it does not
  kWeightsAsleep2,
  kAsleep1,  // weights and cache
  kAsleep2,
  kFailed,
};
inline constexpr int kNumSituations = static_cast<int>(Situation::kFailed) + 1;

enum class Command {
  kPauseAbort,
  kPauseWait,
  kPauseKeep,
  kResume,
  kSleep0,
  kSleep1,
  kSleep2,
  kWakeAll,
  kWakeWeights,
  kWakeKvCache,
  kWakeScheduling,
  kWakeUnknown,
  kReleaseKvCache,
  kResetPrefixCache,
  kAbort,
  kUpdateWeightVersion,
  kReloadWeights,
  kWeightChecksums,
  kZeroWeights,
  kStartUpdate,
  kHoldForUpdate,
  kFinishUpdate,
  kDropUpdate,
  kRequest,
};
inline constexpr int kNumCommands = static_cast<int>(Command::kRequest) + 1;

enum class Outcome {
  kDone,         // it does what it says
  kDrained,      // the same, answered when nothing is in flight any more
  kNothing,      // answered as done: there is nothing to do
  kWaits,        // the request is queued until the engine generates
  kConflict,     // refused, by the tag that is asleep or the session that is open
  kInternal,     // refused: out of order, or for ever because the engine has failed
  kUnavailable,  // refused: there are no weights, or no engine
};

struct Cell {
  Outcome outcome;
  Situation next;  // with nothing in flight, or once that has ended
};

Cell control_cell(Command command, Situation situation);
const char* to_string(Situation situation);
const char* to_string(Command command);
// What a command says that comes out of order.
const char* order_error(Command command);

// What docs/control.md says.
std::string control_page();

// Owned by the engine thread.
class EngineState {
 public:
  Situation situation() const;
  Cell cell(Command command) const { return control_cell(command, situation()); }
  // The error of a cell that refuses.
  std::optional<Error> refusal(Command command) const;

  bool asleep() const { return weights_asleep_ || kv_cache_asleep_; }
  bool weights_asleep() const { return weights_asleep_; }
  bool kv_cache_asleep() const { return kv_cache_asleep_; }
  bool weights_discarded() const { return weights_discarded_; }
  bool failed() const { return failed_; }
  PauseState paused() const { return paused_; }
  // What the scheduler may do: nothing without memory and weights.
  PauseState schedule() const { return can_compute() ? paused_ : PauseState::kPausedAll; }
  bool can_compute() const { return has_model() && !writing_; }
  // Whether what is in flight ends by itself, if only after an update in place.
  bool has_model() const { return !asleep() && !weights_discarded_ && !failed_; }
  bool update_open() const { return update_open_; }
  bool writing() const { return writing_; }
  const std::string& weight_version() const { return weight_version_; }
  ControlStatus status() const;

  void set_paused(PauseState paused) { paused_ = paused; }
  void set_draining(bool draining) { draining_ = draining; }
  void set_weight_version(std::string version) { weight_version_ = std::move(version); }
  // Weights and cache. Ends an open session. `kept`: a wake brings the weights back as they are.
  void fall_asleep(bool kept);
  void release_kv_cache() { kv_cache_asleep_ = true; }
  void wake_weights();
  void wake_kv_cache() { kv_cache_asleep_ = false; }
  // A whole set of weights is in place.
  void weights_loaded() { weights_discarded_ = false; }
  // What is in place can be anything.
  void weights_lost() { weights_discarded_ = true; }
  void open_update() { update_open_ = true; }
  void write_in_place() { writing_ = true; }
  void end_update() { update_open_ = writing_ = false; }
  void fail() { failed_ = true; }

  std::vector<std::string> validate() const;

 private:
  PauseState paused_ = PauseState::kUnpaused;
  bool draining_ = false;
  bool weights_asleep_ = false;
  bool kv_cache_asleep_ = false;
  bool weights_kept_ = false;  // asleep, and a wake brings them back
  bool weights_discarded_ = false;
  bool update_open_ = false;
  bool writing_ = false;  // over the served weights, in an open update
  bool failed_ = false;
  std::string weight_version_ = "default";
};

}  // namespace unspool
