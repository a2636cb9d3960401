#include "weights/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "weights/quote.h"

namespace unspool {
namespace {

// The plain files of the directory by name, sorted.
Result<std::vector<std::string>> list_files(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator it(dir, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return not_found(fmt::format("cannot read the model directory {}: {}", dir, error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

// What the index and the shards say of each other must be the same. `location` gives the file a tensor was found in, or
// null.
template <class Location>
Status check_index(const std::string& path, const WeightMap& weight_map, const std::vector<std::string>& names,
                   Location&& location) {
  for (const auto& [tensor, file] : weight_map) {
    const std::string* found = location(tensor);
    if (found == nullptr || std::filesystem::path(*found).filename() != file) {
      return invalid_argument(fmt::format("{}: weight_map puts {} into {}, which does not have it", path,
                                          quote_name(tensor), quote_name(file)));
    }
  }
  for (const std::string& name : names) {
    if (!weight_map.contains(name)) {
      return invalid_argument(fmt::format("{}: weight_map does not name {}, which {} has", path, quote_name(name),
                                          quote_name(std::filesystem::path(*location(name)).filename().string())));
    }
  }
  return {};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& dir) {
  Checkpoint checkpoint;
  checkpoint.dir_ = dir;
  UNSPOOL_ASSIGN(const std::vector<std::string> names, list_files(dir));
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const std::string index_path = dir + "/" + std::string(kCheckpointIndex);

  WeightMap weight_map;
  std::set<std::string> files;
  if (has(kCheckpointIndex)) {
    UNSPOOL_ASSIGN(const std::string text, read_file(index_path));
    UNSPOOL_ASSIGN(weight_map, parse_checkpoint_index(text, index_path));
    for (const auto& [tensor, file] : weight_map) {
      if (!has(file)) {
        return not_found(fmt::format("{}: weight_map puts {} into {}, which is not there", index_path,
                                     quote_name(tensor), quote_name(file)));
      }
      files.insert(file);
    }
    if (has(kSingleFile) && !files.contains(std::string(kSingleFile))) {
      return invalid_argument(
          fmt::format("{}: both {} and {}, which does not name it: one of them is left over from another "
                      "save",
                      dir, kSingleFile, kCheckpointIndex));
    }
  } else {
    UNSPOOL_ASSIGN(const std::vector<std::string> picked, pick_checkpoint_files(dir, names));
    files.insert(picked.begin(), picked.end());
  }
  for (const std::string& name : files) {
    UNSPOOL_ASSIGN(SafetensorsFile file, SafetensorsFile::open(dir + "/" + name));
    UNSPOOL_TRY(checkpoint.add_file(std::move(file)));
  }
  std::sort(checkpoint.names_.begin(), checkpoint.names_.end());
  if (!weight_map.empty()) {
    UNSPOOL_TRY(check_index(index_path, weight_map, checkpoint.names_, [&](const std::string& name) {
      const auto it = checkpoint.locations_.find(name);
      return it == checkpoint.locations_.end() ? nullptr : &checkpoint.files_[it->second.file].path();
    }));
  }
  return checkpoint;
}

Status Checkpoint::add_file(SafetensorsFile file) {
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const CheckpointTensor& tensor = file.tensors()[i];
    const auto [it, inserted] = locations_.emplace(tensor.name, Location{files_.size(), i});
    if (!inserted) {
      return invalid_argument(fmt::format("tensor {} is in {} and in {}", quote_name(tensor.name),
                                          files_[it->second.file].path(), file.path()));
    }
    names_.push_back(tensor.name);
    total_bytes_ += tensor.bytes.size();
  }
  files_.push_back(std::move(file));
  return {};
}

Result<Checkpoint> Checkpoint::dummy(const std::string& dir, const std::vector<DummyTensor>& tensors, DType dtype) {
  Checkpoint checkpoint;
  checkpoint.dir_ = dir;
  int64_t most = 0;
  for (const DummyTensor& tensor : tensors) {
    UNSPOOL_CHECK(checkpoint.dummy_shapes_.emplace(tensor.name, tensor.shape).second, "{} is given twice", tensor.name);
    checkpoint.names_.push_back(tensor.name);
    checkpoint.total_bytes_ += static_cast<size_t>(tensor.shape.num_elements() * dtype_size(dtype));
    most = std::max(most, tensor.shape.num_elements());
  }
  std::sort(checkpoint.names_.begin(), checkpoint.names_.end());
  UNSPOOL_ASSIGN(checkpoint.dummies_, DummyStream::create(most, dtype));
  return checkpoint;
}

std::optional<CheckpointTensor> Checkpoint::find(std::string_view name) const {
  if (dummies_) {
    const auto it = dummy_shapes_.find(std::string(name));
    if (it == dummy_shapes_.end()) return std::nullopt;
    return CheckpointTensor{it->first, dummies_->dtype(), it->second, dummies_->first(it->second.num_elements())};
  }
  const auto it = locations_.find(std::string(name));
  if (it == locations_.end()) return std::nullopt;
  return files_[it->second.file].tensors()[it->second.tensor];
}

std::optional<std::string> Checkpoint::changed_file() const {
  for (const SafetensorsFile& file : files_)
    if (file.has_changed()) return file.path();
  return std::nullopt;
}

void Checkpoint::drop_pages() const {
  for (const SafetensorsFile& file : files_) file.drop_pages();
  if (dummies_) dummies_->drop();
}

}  // namespace unspool
