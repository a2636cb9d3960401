// Which files of a directory hold the model: by the index that says so, or by their names.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace unspool {

// Says which shard has which tensor.
inline constexpr std::string_view kCheckpointIndex = "model.safetensors.index.json";
inline constexpr std::string_view kSingleFile = "model.safetensors";

// A shard lies in the checkpoint's directory itself: a name that could lead elsewhere is none.
bool is_shard_name(std::string_view name);

// Tensor name to file name.
using WeightMap = std::map<std::string, std::string>;

// The weight_map of an index, with at least one tensor; every file is a shard name. Errors begin with `path`.
Result<WeightMap> parse_checkpoint_index(std::string_view text, const std::string& path);

// The files to read where there is no index, of all names in the directory: model.safetensors, or the only safetensors
// file, or a whole set of numbered shards. What lies beside a model without being of it is passed over: adapters, an
// optimizer's state, a copy in Mistral's own layout (consolidated.safetensors).
Result<std::vector<std::string>> pick_checkpoint_files(const std::string& dir, std::span<const std::string> names);

}  // namespace unspool
