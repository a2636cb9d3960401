#include "weights/checkpoint_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/new_file.h"
#include "json/json_writer.h"
#include "weights/checkpoint.h"
#include "weights/quote.h"

namespace unspool {
namespace {

constexpr size_t kHeaderAlignment = 8;  // of the data, as the format's own library has it

// Tensors that stand in one file.
struct Shard {
  std::string name;
  size_t first;
  size_t count;
};

// The pattern's fields as Python's str.format() has them, without format specifications.
Result<std::string> shard_name(const std::string& pattern, size_t part) {
  const auto faulty = [&](const char* what) {
    return invalid_argument(fmt::format("pattern: {}, got {}", what, quote_name(pattern)), "pattern");
  };
  std::string name;
  for (std::string_view rest = pattern; !rest.empty();) {
    const auto take = [&](std::string_view token, const std::string& text) {
      if (!rest.starts_with(token)) return false;
      rest.remove_prefix(token.size());
      name += text;
      return true;
    };
    if (take("{{", "{") || take("}}", "}") || take("{rank}", "0") || take("{part}", std::to_string(part))) continue;
    if (rest[0] == '{' || rest[0] == '}') return faulty("expected no fields but {rank} and {part}");
    name += rest[0];
    rest.remove_prefix(1);
  }
  if (!is_shard_name(name) || name.starts_with('.') || !name.ends_with(".safetensors")) {
    return faulty("expected the name of a .safetensors file, without a directory");
  }
  return name;
}

Result<std::vector<Shard>> plan_shards(const CheckpointLayout& layout, std::span<const TensorToWrite> tensors) {
  std::vector<Shard> shards;
  size_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t size = tensors[i].size_bytes();
    if (shards.empty() || (layout.max_bytes && filled + size > *layout.max_bytes)) {
      UNSPOOL_ASSIGN(std::string name, shard_name(layout.pattern, shards.size()));
      if (!shards.empty() && shards.front().name == name) {
        return invalid_argument("pattern: expected {part} in it, for there are several parts", "pattern");
      }
      shards.push_back({std::move(name), i, 0});
      filled = 0;
    }
    filled += size;
    ++shards.back().count;
  }
  return shards;
}

std::string header_of(std::span<const TensorToWrite> tensors) {
  JsonWriter w;
  w.begin_object();
  w.key("__metadata__");
  w.begin_object();
  w.key("format");
  w.string("pt");  // transformers reads no other
  w.end_object();
  size_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    w.key(tensor.name);
    w.begin_object();
    w.key("dtype");
    w.string(safetensors_name(tensor.dtype));
    w.key("shape");
    w.begin_array();
    for (const int64_t extent : tensor.shape.dims()) w.integer(extent);
    w.end_array();
    w.key("data_offsets");
    w.begin_array();
    w.integer(static_cast<int64_t>(offset));
    offset += tensor.size_bytes();
    w.integer(static_cast<int64_t>(offset));
    w.end_array();
    w.end_object();
  }
  w.end_object();
  std::string json = std::move(w).str();
  json.resize((json.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(uint64_t{json.size()} >> (8 * i));
  return header + json;
}

Result<NewFile> write_file(const std::string& path, std::string_view text) {
  UNSPOOL_ASSIGN(NewFile file, NewFile::create(path));
  UNSPOOL_TRY(file.append(std::as_bytes(std::span(text))));
  return file;
}

Result<NewFile> write_shard(const std::string& directory, const Shard& shard, std::span<const TensorToWrite> tensors,
                            const TensorSource& source) {
  UNSPOOL_ASSIGN(NewFile file,
                 write_file(directory + "/" + shard.name, header_of(tensors.subspan(shard.first, shard.count))));
  for (size_t i = shard.first; i < shard.first + shard.count; ++i) {
    Status written;
    size_t size = 0;
    source(i, [&](const void* bytes, size_t size_bytes) {
      size += size_bytes;
      if (written.ok()) written = file.append({static_cast<const std::byte*>(bytes), size_bytes});
    });
    UNSPOOL_TRY(std::move(written));
    UNSPOOL_CHECK(size == tensors[i].size_bytes(), "{} bytes of {}", size, tensors[i].name);
  }
  UNSPOOL_TRY(file.close());
  return file;
}

std::string index_of(std::span<const TensorToWrite> tensors, const std::vector<Shard>& shards) {
  size_t total = 0;
  for (const TensorToWrite& tensor : tensors) total += tensor.size_bytes();
  JsonWriter w;
  w.begin_object();
  w.key("metadata");
  w.begin_object();
  w.key("total_size");
  w.integer(static_cast<int64_t>(total));
  w.end_object();
  w.key("weight_map");
  w.begin_object();
  for (const Shard& shard : shards) {
    for (const TensorToWrite& tensor : tensors.subspan(shard.first, shard.count)) {
      w.key(tensor.name);
      w.string(shard.name);
    }
  }
  w.end_object();
  w.end_object();
  return std::move(w).str();
}

// Makes the directory. Weights in it that are not overwritten would be found beside the new ones.
Status prepare(const std::string& directory, const std::vector<Shard>& shards) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && ::access(directory.c_str(), W_OK | X_OK) != 0) error.assign(errno, std::generic_category());
  const auto faulty = [&] {
    return invalid_argument(fmt::format("path: cannot use {}: {}", quote_name(directory), error.message()), "path");
  };
  if (error) return faulty();
  std::filesystem::directory_iterator it(directory, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    const auto is_it = [&](const Shard& shard) { return shard.name == name; };
    if (!name.ends_with(".safetensors") || std::any_of(shards.begin(), shards.end(), is_it)) continue;
    return Error{ErrorKind::kConflict,
                 fmt::format("path: {} holds other weights ({}); name a directory of its own for these",
                             quote_name(directory), quote_name(name)),
                 "path"};
  }
  if (error) return faulty();
  return {};
}

}  // namespace

Status write_checkpoint(const CheckpointLayout& layout, std::span<const TensorToWrite> tensors,
                        const TensorSource& source) {
  UNSPOOL_ASSIGN(const std::vector<Shard> shards, plan_shards(layout, tensors));
  UNSPOOL_TRY(prepare(layout.directory, shards));
  std::vector<NewFile> files;
  for (const Shard& shard : shards) {
    UNSPOOL_ASSIGN(NewFile file, write_shard(layout.directory, shard, tensors, source));
    files.push_back(std::move(file));
  }
  UNSPOOL_ASSIGN(NewFile index,
                 write_file(layout.directory + "/" + std::string(kCheckpointIndex), index_of(tensors, shards)));
  UNSPOOL_TRY(index.close());
  for (NewFile& file : files) UNSPOOL_TRY(file.move_into_place());
  return index.move_into_place();
}

}  // namespace unspool
