// Where the tensors of a weight update wait, already packed, until a step boundary makes them the model's: all of them or
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/weight_set.h"

namespace unspool {

enum class WeightUpdateMode {
  kDoubleBuffer,  // beside the weights that are served
  kInPlace,       // over them: half the memory, and a session that fails leaves nothing to serve
};

// What an update announces of a tensor, by its name in a checkpoint.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                         // of the whole tensor
  std::optional<int64_t> num_updates;  // sparse: that many of its elements

  // What the update carries for it: values, behind int32 indices where sparse. Of specs that were checked.
  size_t size_bytes() const;
};

class WeightStaging {
 public:
  // `backend` packs on threads of its own, beside the engine's; both outlive this.
  WeightStaging(WeightSet& weights, Backend& backend, WeightUpdateMode mode);

  // Any thread: whether every tensor is one of the model's (or a tied head, which is compared at the end), once, of its
  // shape and a dtype that can be cast.
  Status check(std::span<const TensorSpec> specs) const;

  // The transfer's thread. `bytes` is spec.size_bytes() long, row-major and perhaps unaligned; its sparse form is
  // int32 [n] flat indices into the whole tensor, ascending or not, then [n] values that replace what is there. A later
  // put of a tensor replaces an earlier one, a sparse one goes on top of it. kConflict: `session` is not the open one.
  Status put(uint64_t session, const TensorSpec& spec, std::span<const std::byte> bytes);

  // The engine's thread, between steps.
  void begin(uint64_t session);
  // Tensors that the session has not brought, first ones of the model first.
  std::vector<std::string> missing() const;
  // Makes what was put the model's. kInvalidArgument (a redundant head that is not its embedding): nothing has changed.
  Status commit();
  // Waits for a put that is under way, which fails. Whether weights that are served were written.
  bool drop();
  // Gives the second copy's memory back. Not in a session.
  void release();
  size_t resident_bytes() const;

  WeightUpdateMode mode() const { return mode_; }

 private:
  WeightSet& weights_;
  Backend& backend_;
  WeightUpdateMode mode_;
};

}  // namespace unspool
