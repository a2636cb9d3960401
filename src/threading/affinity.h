// Which cores the operating system lets this process use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unspool {

// The cores of this process's affinity mask, ascending.
std::vector<int> affinity_mask();

// Pins the calling thread to one core; a refusal is ignored, since pinning only saves time.
void pin_this_thread(int core);

// The cpu quota in cores of the cgroups that `self_cgroup` (the text of /proc/self/cgroup) names, the tightest of all
// levels; infinity where none is set. `mount` is where the cgroup file systems are mounted, "/sys/fs/cgroup".
double cgroup_cpu_quota(std::string_view self_cgroup, const std::string& mount);

}  // namespace unspool
