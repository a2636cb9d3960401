// How much memory the KV cache may take where nobody says.
#pragma once

#include <cstdint>
#include <string_view>

namespace unspool {

// Bytes that this process could still allocate: the system's available memory, or less under a cgroup's limit.
int64_t available_memory_bytes();

// MemAvailable of /proc/meminfo's text; 0 where it is not there.
int64_t parse_mem_available(std::string_view meminfo);

// The smaller of 2 GiB and a quarter of what is available.
int64_t default_kv_cache_bytes(int64_t available_bytes);

}  // namespace unspool
