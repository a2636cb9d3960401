// The engine's hold on a model's memory and weights, between steps: what sleep gives back, and where weights come from
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace unspool {

// Checked before it is applied; what fails leaves the weights as they were, bit for bit.
struct ReloadRequest {
  std::string weights_path;          // a model directory; empty: the served checkpoint
  bool is_checkpoint_format = true;  // names and shapes are a Hugging Face checkpoint's; false: refused by name
};

// ModelRunner is the real one; the engine's tests use one that counts. Called by the engine thread alone, never during
// a step.
class ModelMemory {
 public:
  virtual ~ModelMemory() = default;

  virtual size_t weight_bytes() const = 0;    // resident when awake
  virtual size_t kv_cache_bytes() const = 0;  // likewise, as far as it was touched

  // Keys and values go back to the operating system; restore gives a zeroed cache.
  virtual void release_kv_cache() = 0;
  virtual Status restore_kv_cache() = 0;

  // Level 1: makes sure that the weights can be brought back without the trainer. Clean ones (as the mapped checkpoint
  // has them) need nothing; others are written below the sleep directory, or kept where memory backs them. On an error
  // (no space, not writable) nothing has changed and the weights must stay.
  virtual Status back_up_weights() = 0;
  // Frees weights and everything derived from them. Without a backup they are gone, but for the names to preserve.
  virtual Status release_weights(bool backed_up) = 0;
  // After release_weights(): allocates, and brings the bits back (backed up) or leaves them undefined (not backed up;
  // the preserved ones are right). kConflict where the checkpoint changed underneath: then they are allocated and
  // undefined.
  virtual Status restore_weights() = 0;

  // All or nothing, at a step boundary. kNotFound, kInvalidArgument: nothing was changed.
  virtual Status reload_weights(const ReloadRequest& request) = 0;
  // A session of weight updates (WeightStaging). Its tensors come beside what runs, but for in place.
  virtual Status begin_update(uint64_t session) = 0;  // kInternal: no transfer is configured
  virtual bool updates_in_place() const = 0;
  // Makes what came the model's, and ends the session. True: every weight is one that was brought or was good before.
  // kInvalidArgument (tensors are missing and it is not `partial`; a tied head is not its embedding): the session goes
  // on, and nothing has changed.
  virtual Result<bool> commit_update(bool partial) = 0;
  // Ends the session. True: weights that were served are overwritten in part.
  virtual bool drop_update() = 0;

  virtual void zero_weights() = 0;  // /weight_checker reset
  // "model.layers.0.self_attn.q_proj.weight" to the SHA-256 (hex) of the tensor's row-major bytes in the served dtype.
  // A tied head is not listed.
  virtual std::map<std::string, std::string> weight_checksums() const = 0;
};

}  // namespace unspool
