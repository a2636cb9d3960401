#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "metrics/prometheus_text.h"

namespace unspool {
namespace {

// Fields of /proc/self/stat by their numbers in proc(5).
constexpr int kUserTicksField = 14;
constexpr int kSystemTicksField = 15;
constexpr int kStartTicksField = 22;
constexpr int kVirtualBytesField = 23;
constexpr int kResidentPagesField = 24;
// The command's name is field 2; it may hold spaces, so counting starts after its closing parenthesis.
constexpr int kFirstFieldAfterName = 3;

struct ProcessStat {
  double fields[kResidentPagesField + 1] = {};
};

ProcessStat read_stat() {
  ProcessStat stat;
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return stat;
  std::istringstream rest(line.substr(name_end + 1));
  std::string field;
  for (int i = kFirstFieldAfterName; i <= kResidentPagesField && rest >> field; ++i)
    stat.fields[i] = std::atof(field.c_str());
  return stat;
}

double boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double seconds = 0;
    if (key == "btime" && file >> seconds) return seconds;
    std::string rest;
    std::getline(file, rest);
  }
  return 0;
}

double open_descriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++count;
  return count > 0 ? count - 1 : 0;  // less the one that reads the directory
}

double max_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

void write_process_metrics(PrometheusText& text) {
  const ProcessStat stat = read_stat();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto write = [&](std::string_view name, std::string_view help, std::string_view type, double value) {
    text.family(name, help, type);
    text.sample(name, {}, value);
  };
  write("process_virtual_memory_bytes", "Virtual memory size in bytes.", "gauge", stat.fields[kVirtualBytesField]);
  write("process_resident_memory_bytes", "Resident memory size in bytes.", "gauge",
        stat.fields[kResidentPagesField] * static_cast<double>(sysconf(_SC_PAGESIZE)));
  write("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", "gauge",
        boot_time_seconds() + stat.fields[kStartTicksField] / ticks);
  write("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter",
        (stat.fields[kUserTicksField] + stat.fields[kSystemTicksField]) / ticks);
  write("process_open_fds", "Number of open file descriptors.", "gauge", open_descriptors());
  write("process_max_fds", "Maximum number of open file descriptors.", "gauge", max_descriptors());
}

}  // namespace unspool
