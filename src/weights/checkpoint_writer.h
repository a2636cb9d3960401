// Writes a checkpoint: safetensors shards of any name, and the index that says which tensor is in which.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace unspool {

struct TensorToWrite {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;

  size_t size_bytes() const { return static_cast<size_t>(shape.num_elements() * dtype_size(dtype)); }
};

struct CheckpointLayout {
  std::string directory;            // made where it is missing
  std::string pattern;              // of the shards' names: {rank} is 0, {part} counts from 0
  std::optional<size_t> max_bytes;  // of a shard's tensors; one that is larger has a shard to itself
};

// Takes a piece of a tensor's row-major bytes.
using TensorSink = std::function<void(const void* bytes, size_t size_bytes)>;
// Hands all of the index-th tensor to the sink, piece by piece.
using TensorSource = std::function<void(size_t index, const TensorSink& sink)>;

// Every shard is written before the first takes its place, and the index comes last, so that a directory has the
// checkpoint from before for as long as it can. What fails with kInvalidArgument (the layout), kConflict (other weights
// are in the directory, which the index would make a puzzle of) or kInternal (the disk) leaves no file behind.
Status write_checkpoint(const CheckpointLayout& layout, std::span<const TensorToWrite> tensors,
                        const TensorSource& source);

}  // namespace unspool
