#include "weights/checkpoint_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "json/json.h"
#include "weights/quote.h"

namespace unspool {
namespace {

// Files that trainers leave beside a model's: never its weights.
bool is_stray(std::string_view name) {
  for (const std::string_view prefix :
       {"consolidated", "adapter_", "training_args", "optimizer", "scheduler", "rng_state", "scaler"})
    if (name.starts_with(prefix)) return true;
  return false;
}

// "model-00002-of-00003.safetensors".
struct Numbered {
  std::string_view stem;
  int index = 0, count = 0;
};

std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 5) return std::nullopt;
  return value;
}

std::optional<Numbered> parse_numbered(std::string_view name) {
  constexpr std::string_view kSuffix = ".safetensors", kOf = "-of-";
  constexpr size_t kDigits = 5, kTail = 1 + kDigits + kOf.size() + kDigits;
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  if (name.size() < kTail) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kTail);
  if (tail.front() != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto index = five_digits(tail.substr(1, kDigits)), count = five_digits(tail.substr(kTail - kDigits));
  if (!index || !count) return std::nullopt;
  return Numbered{name.substr(0, name.size() - kTail), *index, *count};
}

// Whether the names are shards 1 to n of one set; an error names the one that is missing. `names` is sorted.
Result<bool> is_whole_set(const std::string& dir, std::span<const std::string> names) {
  const auto first = parse_numbered(names.front());
  if (!first) return false;
  for (const std::string& name : names) {
    const auto shard = parse_numbered(name);
    if (!shard || shard->stem != first->stem || shard->count != first->count) return false;
  }
  for (int i = 1; i <= first->count; ++i) {
    const std::string wanted = fmt::format("{}-{:05}-of-{:05}.safetensors", first->stem, i, first->count);
    if (!std::binary_search(names.begin(), names.end(), wanted))
      return not_found(fmt::format("{}: {} is missing, of {} shards", dir, wanted, first->count));
  }
  return names.size() == static_cast<size_t>(first->count);
}

}  // namespace

bool is_shard_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

Result<WeightMap> parse_checkpoint_index(std::string_view text, const std::string& path) {
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
                      quote_name(tensor), fit_line(value.dump())));
    }
    if (!files.emplace(tensor, *file).second) {
      return invalid_argument(fmt::format("{}: weight_map: {} is given twice", path, quote_name(tensor)));
    }
  }
  if (files.empty()) return invalid_argument(path + ": weight_map: expected at least one tensor");
  return files;
}

Result<std::vector<std::string>> pick_checkpoint_files(const std::string& dir, std::span<const std::string> names) {
  std::vector<std::string> safetensors;
  std::vector<std::string> others, strays;
  for (const std::string& name : names) {
    const bool readable = name.ends_with(".safetensors");
    if (is_stray(name)) {
      if (readable) strays.push_back(name);
      continue;
    }
    if (readable) safetensors.push_back(name);
    for (const std::string_view suffix : {".bin", ".pt", ".pth", ".gguf"}) {
      if (name.ends_with(suffix)) others.push_back(name);
    }
  }
  std::sort(safetensors.begin(), safetensors.end());
  if (std::binary_search(safetensors.begin(), safetensors.end(), kSingleFile))
    return std::vector{std::string(kSingleFile)};
  if (!safetensors.empty()) {
    UNSPOOL_ASSIGN(const bool whole, is_whole_set(dir, safetensors));
    if (whole || safetensors.size() == 1) return safetensors;
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
  if (!strays.empty()) {
    return invalid_argument(fmt::format("{}: no weights of a model: {} is none of its files; expected {} or {}", dir,
                                        strays.front(), kSingleFile, kCheckpointIndex));
  }
  return not_found(fmt::format("{}: no weights: expected {} or {}", dir, kSingleFile, kCheckpointIndex));
}

}  // namespace unspool
