#include "server/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "base/file.h"

namespace unspool {
namespace {

std::optional<int64_t> leading_number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  int64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> number_in(const std::string& path) {
  const auto text = read_file(path);
  return text.ok() ? leading_number(*text) : std::nullopt;  // "max" is no number: no limit
}

// Limit less use of one cgroup directory, version 2 or 1; page cache that could be dropped counts as used, which errs
// on the safe side.
std::optional<int64_t> room_in_cgroup(const std::string& directory) {
  for (const auto& [limit, use] :
       {std::pair("memory.max", "memory.current"), std::pair("memory.limit_in_bytes", "memory.usage_in_bytes")}) {
    const auto most = number_in(directory + "/" + limit);
    const auto used = number_in(directory + "/" + use);
    if (most && used) return std::max<int64_t>(*most - *used, 0);
  }
  return std::nullopt;
}

// The tightest limit on the way from this process's cgroup to the root.
int64_t room_in_cgroups() {
  int64_t room = std::numeric_limits<int64_t>::max();
  const auto self = read_file("/proc/self/cgroup");
  std::string_view rest = self.ok() ? std::string_view(*self) : std::string_view();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // "0::/path" or "4:memory:/path"
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers.find("memory") == std::string_view::npos) continue;
    const std::string mount = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string path(line.substr(second + 1));
    while (true) {
      if (const auto here = room_in_cgroup(mount + path)) room = std::min(room, *here);
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  return room;
}

}  // namespace

int64_t parse_mem_available(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  const size_t at = meminfo.find(kKey);
  if (at == std::string_view::npos) return 0;
  return leading_number(meminfo.substr(at + kKey.size())).value_or(0) * 1024;
}

int64_t available_memory_bytes() {
  const auto meminfo = read_file("/proc/meminfo");
  return std::min(meminfo.ok() ? parse_mem_available(*meminfo) : 0, room_in_cgroups());
}

int64_t default_kv_cache_bytes(int64_t available_bytes) {
  return std::min<int64_t>(int64_t{2} << 30, available_bytes / 4);
}

}  // namespace unspool
