// The control plane's commands to the engine (docs/control.md): pause, sleep, wake, versions, cache resets, reloads.
// Each runs on the engine thread between two steps; its answer comes through a callback, on that thread, exactly once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "runner/model_memory.h"

namespace unspool {

enum class PauseMode { kAbort, kWait, kKeep };

// What memory can be asleep, by vLLM's tag.
enum class MemoryTag { kWeights, kKvCache };

struct PauseReply {
  bool mixed_weights = false;  // set by resume: kept requests go on with keys of older weights
};
struct SleepReply {
  int level = 0;
};
struct WakeReply {
  bool awake = false;                // nothing is asleep any more
  std::vector<std::string> ignored;  // unknown tags: they made the call a no-op
};
struct ControlStatus {
  bool paused = false;
  bool sleeping = false;  // paused in any way, or any memory asleep
  bool weights_asleep = false;
  bool kv_cache_asleep = false;
  bool weights_discarded = false;  // woken from level 2 and not reloaded: the engine does not generate
  bool update_open = false;
  std::string weight_version;
};

template <class T>
using ControlCallback = std::function<void(Result<T>)>;
using DoneCallback = std::function<void(Status)>;

// Thread-safe; every call returns at once. Refusals are kConflict (memory asleep, named by tag), kInternal (an order
// error, worded as the reference does), kUnavailable (shutting down or failed).
class EngineControl {
 public:
  virtual ~EngineControl() = default;
  virtual void pause(PauseMode mode, bool clear_cache, ControlCallback<PauseReply> reply) = 0;
  virtual void resume(ControlCallback<PauseReply> reply) = 0;
  virtual void sleep(int level, PauseMode mode, ControlCallback<SleepReply> reply) = 0;
  // No tags: all. "weights", "kv_cache", "scheduling"; others are unknown.
  virtual void wake_up(std::optional<std::vector<std::string>> tags, ControlCallback<WakeReply> reply) = 0;
  virtual void release_kv_cache_memory(DoneCallback reply) = 0;
  // False where blocks are in use and `reset_running_requests` is off.
  virtual void reset_prefix_cache(bool reset_running_requests, ControlCallback<bool> reply) = 0;
  // As /abort_requests counts: ids given, or with none every request there is.
  virtual void abort(std::vector<std::string> external_ids, ControlCallback<int> reply) = 0;
  virtual void update_weight_version(std::string version, DoneCallback reply) = 0;
  virtual void reload_weights(ReloadRequest request, DoneCallback reply) = 0;

  // A session of weight updates. Its tensors go to the WeightStaging between start and finish, on the transfer's own
  // thread; `session` names it, so that what belongs to one that has ended touches nothing.
  virtual void start_weight_update(ControlCallback<uint64_t> reply) = 0;
  // Before the first byte of it: where weights are written in place, no step runs from here until the session ends.
  virtual void hold_for_update(uint64_t session, DoneCallback reply) = 0;
  // The new weights are served from the next step on. kInvalidArgument names what is missing; the session is open still
  // then, and nothing has changed.
  virtual void finish_weight_update(uint64_t session, bool partial, std::optional<std::string> version,
                                    DoneCallback reply) = 0;
  // The old weights stay; written in place, they are lost. No session of that name: nothing to do.
  virtual void drop_weight_update(uint64_t session, std::string why, DoneCallback reply) = 0;
  virtual void weight_checksums(ControlCallback<std::map<std::string, std::string>> reply) = 0;
  virtual void save_weights(SaveRequest request, DoneCallback reply) = 0;
  virtual void zero_weights(DoneCallback reply) = 0;
  // At once, from published values: never waits behind a command.
  virtual ControlStatus status() const = 0;
};

}  // namespace unspool
