// Any bytes as model.safetensors.index.json, and as the names of a directory's files, one a line: an error with a
// message, or files that lie in that directory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "weights/checkpoint_index.h"

namespace {

void check_message(const std::string& message) {
  if (message.empty() || message.size() > 4096) std::abort();
}

bool leads_elsewhere(std::string_view name) {
  return name.empty() || name == "." || name == ".." || name.find('/') != name.npos || name.find('\0') != name.npos;
}

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    // No directory has a name of more than 255 bytes.
    out.emplace_back(text.substr(0, std::min<size_t>(end, 255)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto map = parse_checkpoint_index(text, "index");
  if (!map.ok()) check_message(map.error().message);
  if (map.ok()) {
    if (map->empty()) std::abort();
    for (const auto& [tensor, file] : *map)
      if (leads_elsewhere(file)) std::abort();
  }
  const std::vector<std::string> names = lines(text);
  const auto files = pick_checkpoint_files("dir", names);
  if (!files.ok()) check_message(files.error().message);
  if (files.ok()) {
    if (files->empty()) std::abort();
    for (const std::string& file : *files)
      if (std::find(names.begin(), names.end(), file) == names.end()) std::abort();
  }
  return 0;
}
