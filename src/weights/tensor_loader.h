// The consumer's side of a checkpoint: a model takes its tensors, and what is missing, mis-shaped or left over is
// named.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tensor/shape.h"
#include "weights/checkpoint.h"

namespace unspool {

// Hands out a checkpoint's tensors by name and remembers which were taken. The checkpoint must outlive it.
class WeightLoader {
 public:
  explicit WeightLoader(const Checkpoint& checkpoint);

  // The tensor, if it is there with this shape and in float32, bfloat16 or float16; else an error that says what was
  // expected and what is there. A name is taken once.
  Result<CheckpointTensor> take(std::string_view name, Shape expected);
  bool has(std::string_view name) const;

  // `name` is the same tensor as `source` in this model (a tied lm_head): it need not be there. If it is there and is
  // not byte for byte the source, a warning says that `source` is the one served.
  void accept_tied(std::string_view name, std::string_view source);

  // An error that lists what was not taken, ten names at most. Buffers that old exporters saved (rotary_emb.inv_freq)
  // are left out: the model computes them.
  Status finish() const;

 private:
  const Checkpoint& checkpoint_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace unspool
