#include "threading/affinity.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "threading/thread_pool.h"

namespace unspool {
namespace {

// More than any machine has; sched_getaffinity fails on masks shorter than the kernel's own.
constexpr int kMaxCores = 8192;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

double quota_of(double quota_us, double period_us) {
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : kNoQuota;
}

// Version 2: "max 100000" or "150000 100000".
double read_v2(const std::string& directory) {
  std::ifstream file(directory + "/cpu.max");
  std::string quota;
  double period_us = 0;
  if (!(file >> quota >> period_us) || quota == "max") return kNoQuota;
  return quota_of(std::atof(quota.c_str()), period_us);
}

// Version 1: a quota of -1 means none.
double read_v1(const std::string& directory) {
  double quota_us = 0;
  double period_us = 0;
  std::ifstream(directory + "/cpu.cfs_quota_us") >> quota_us;
  std::ifstream(directory + "/cpu.cfs_period_us") >> period_us;
  return quota_of(quota_us, period_us);
}

// The tightest quota of `path` and its ancestors up to the mount. Within a container the path often names directories
// of the host that are not there; those read as no quota, and the mount itself is the container's own group.
template <class Read>
double tightest(const std::string& mount, std::string path, Read read) {
  double cores = kNoQuota;
  while (true) {
    cores = std::min(cores, read(mount + path));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return cores;
    path.resize(slash);
  }
}

}  // namespace

std::vector<int> affinity_mask() {
  std::vector<int> cores;
  cpu_set_t* set = CPU_ALLOC(kMaxCores);
  const size_t size = CPU_ALLOC_SIZE(kMaxCores);
  CPU_ZERO_S(size, set);
  if (sched_getaffinity(0, size, set) == 0) {
    for (int core = 0; core < kMaxCores; ++core) {
      if (CPU_ISSET_S(core, size, set)) cores.push_back(core);
    }
  }
  CPU_FREE(set);
  return cores;
}

void pin_this_thread(int core) {
  cpu_set_t* set = CPU_ALLOC(kMaxCores);
  const size_t size = CPU_ALLOC_SIZE(kMaxCores);
  CPU_ZERO_S(size, set);
  CPU_SET_S(core, size, set);
  pthread_setaffinity_np(pthread_self(), size, set);
  CPU_FREE(set);
}

double cgroup_cpu_quota(std::string_view self_cgroup, const std::string& mount) {
  double cores = kNoQuota;
  std::istringstream lines{std::string(self_cgroup)};
  // Each line is "id:controllers:path"; version 2 has id 0 and no controllers.
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      cores = std::min(cores, tightest(mount, path, read_v2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      cores = std::min(cores, tightest(mount + "/" + controllers, path, read_v1));
    }
  }
  return cores;
}

int allowed_cores() {
  std::ostringstream self_cgroup;
  self_cgroup << std::ifstream("/proc/self/cgroup").rdbuf();
  const double in_mask = static_cast<double>(std::max<size_t>(affinity_mask().size(), 1));
  const double quota = std::ceil(cgroup_cpu_quota(self_cgroup.str(), "/sys/fs/cgroup"));
  return static_cast<int>(std::max(1.0, std::min(in_mask, quota)));
}

}  // namespace unspool
