// Gives the model's memory back and takes it again, and says so in the lines that trainers look for in the log.
#pragma once

#include <string>

#include "engine/engine_state.h"
#include "runner/model_memory.h"

namespace unspool {

// Between steps, when no sequence holds a block. Every call leaves the state as it is where it fails, but for a wake
// whose checkpoint has changed.
class MemorySleep {
 public:
  // Null, or not enabled: nothing is freed, the state alone changes.
  MemorySleep(ModelMemory* memory, bool enabled) : memory_(enabled ? memory : nullptr) {}

  // What a sleep of that level needs before anything is given up.
  Status back_up(const EngineState& state, int level);
  // After back_up(). Weights that sleep already stay as they are.
  Status fall_asleep(EngineState& state, int level);
  Status release_kv_cache(EngineState& state);
  // What of the two is asleep. kConflict: woken, with weights that count as discarded.
  Status wake(EngineState& state, bool weights, bool kv_cache);

 private:
  bool keeps_weights(const EngineState& state, int level) const;

  ModelMemory* memory_;
};

}  // namespace unspool
