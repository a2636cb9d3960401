// The weights of a model directory: one safetensors file, or shards with an index; or numbers in their place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "weights/checkpoint_index.h"
#include "weights/dummy_stream.h"
#include "weights/safetensors.h"

namespace unspool {

using CheckpointTensor = SafetensorsTensor;

class Checkpoint {
 public:
  // `dir` holds model.safetensors.index.json with the shards it names, or files that pick_checkpoint_files finds. Index
  // and shards must agree on every name, and no name may lead out of the directory. Other files are passed over.
  static Result<Checkpoint> open(const std::string& dir);
  // Without any file: these tensors, of a DummyStream. What is found is dead once pages are dropped.
  static Result<Checkpoint> dummy(const std::string& dir, const std::vector<DummyTensor>& tensors, DType dtype);

  std::optional<CheckpointTensor> find(std::string_view name) const;
  // Every name once, sorted.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& dir() const { return dir_; }
  size_t total_bytes() const { return total_bytes_; }  // of tensor data
  // Gives the files' resident pages back; call it as tensors are copied or packed, so that no second copy stays
  // resident.
  void drop_pages() const;
  // The path of a file that was written to since the checkpoint was opened: its tensors are not what was checked.
  std::optional<std::string> changed_file() const;

 private:
  Checkpoint() = default;
  Status add_file(SafetensorsFile file);

  std::string dir_;
  std::vector<SafetensorsFile> files_;
  struct Location {
    size_t file;
    size_t tensor;
  };
  std::unordered_map<std::string, Location> locations_;
  std::vector<std::string> names_;
  size_t total_bytes_ = 0;
  std::optional<DummyStream> dummies_;
  std::unordered_map<std::string, Shape> dummy_shapes_;
};

}  // namespace unspool
