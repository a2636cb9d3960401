#include "weights/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "json/json.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";

// Tensor name to file name, from the index.
using WeightMap = std::map<std::string, std::string>;

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

Result<WeightMap> read_index(const std::string& path) {
  UNSPOOL_ASSIGN(const std::string text, read_file(path));
  auto document = JsonDocument::parse(text);
  if (!document.ok()) return invalid_argument(path + ": " + document.error().message);
  const JsonValue weight_map = document->root()["weight_map"];
  if (!weight_map.is_object()) return invalid_argument(path + ": weight_map: expected an object");
  WeightMap files;
  for (const auto& [tensor, value] : weight_map.members()) {
    const std::optional<std::string_view> file = value.as_string();
    if (!file || !is_shard_name(*file)) {
      return invalid_argument(
          fmt::format("{}: weight_map: {}: expected the name of a file in the same directory, got {}", path,
                      quote_name(tensor), quote_name(value.dump())));
    }
    if (!files.emplace(tensor, *file).second) {
      return invalid_argument(fmt::format("{}: weight_map: {} is given twice", path, quote_name(tensor)));
    }
  }
  if (files.empty()) return invalid_argument(path + ": weight_map: expected at least one tensor");
  return files;
}

// The only file to read where there is no index.
Result<std::string> pick_file(const std::string& dir, const std::vector<std::string>& names) {
  std::vector<std::string> safetensors;
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (name.ends_with(".safetensors")) safetensors.push_back(name);
    for (const std::string_view suffix : {".bin", ".pt", ".pth", ".gguf"}) {
      if (name.ends_with(suffix)) others.push_back(name);
    }
  }
  if (std::find(safetensors.begin(), safetensors.end(), kSingleFile) != safetensors.end())
    return std::string(kSingleFile);
  if (safetensors.size() == 1) return safetensors.front();
  if (!safetensors.empty()) {
    return invalid_argument(
        fmt::format("{}: {} safetensors files ({}, ...) and no {} that says what belongs to the model", dir,
                    safetensors.size(), safetensors.front(), kCheckpointIndex));
  }
  if (!others.empty()) {
    return invalid_argument(
        fmt::format("{}: no safetensors weights; {} is of a format that is not read: save the model with "
                    "save_pretrained(..., safe_serialization=True)",
                    dir, others.front()));
  }
  return not_found(fmt::format("{}: no weights: expected {} or {}", dir, kSingleFile, kCheckpointIndex));
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

bool is_shard_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

Result<Checkpoint> Checkpoint::open(const std::string& dir) {
  Checkpoint checkpoint;
  checkpoint.dir_ = dir;
  UNSPOOL_ASSIGN(const std::vector<std::string> names, list_files(dir));
  const auto has = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  const std::string index_path = dir + "/" + std::string(kCheckpointIndex);

  WeightMap weight_map;
  std::set<std::string> files;
  if (has(kCheckpointIndex)) {
    UNSPOOL_ASSIGN(weight_map, read_index(index_path));
    for (const auto& [tensor, file] : weight_map) files.insert(file);
    if (has(kSingleFile) && !files.contains(std::string(kSingleFile))) {
      return invalid_argument(
          fmt::format("{}: both {} and {}, which does not name it: one of them is left over from another "
                      "save",
                      dir, kSingleFile, kCheckpointIndex));
    }
  } else {
    UNSPOOL_ASSIGN(std::string file, pick_file(dir, names));
    files.insert(std::move(file));
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

std::optional<CheckpointTensor> Checkpoint::find(std::string_view name) const {
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
}

}  // namespace unspool
