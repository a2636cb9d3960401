#include "engine/memory_sleep.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/attempt.h"

namespace unspool {

namespace {

double gib(double bytes) {
  return bytes / (1024.0 * 1024.0 * 1024.0);
}

// What of this process is in memory.
double resident_bytes() {
  long pages = 0;
  if (const auto text = read_file("/proc/self/statm")) std::sscanf(text->c_str(), "%*s %ld", &pages);
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void log_freed(double before) {
  const double after = resident_bytes();
  log_info("Sleep mode freed {:.2f} GiB memory, {:.2f} GiB memory is still in use.", gib(std::max(before - after, 0.0)),
           gib(after));
}

}  // namespace

bool MemorySleep::keeps_weights(const EngineState& state, int level) const {
  return memory_ == nullptr || (level == 1 && !state.weights_discarded());
}

Status MemorySleep::back_up(const EngineState& state, int level) {
  if (memory_ == nullptr || state.weights_asleep() || !keeps_weights(state, level)) return {};
  return attempt("The backup of the weights", [&] { return memory_->back_up_weights(); });
}

Status MemorySleep::fall_asleep(EngineState& state, int level) {
  const bool kept = keeps_weights(state, level);
  if (memory_ == nullptr) {
    log_warning("Sleep mode is not enabled: nothing is freed, and the weights stay. See --enable-sleep-mode.");
    state.fall_asleep(kept);
    return {};
  }
  const double before = resident_bytes();
  const double start_s = monotonic_seconds();
  const auto weight_bytes = static_cast<double>(state.weights_asleep() ? 0 : memory_->weight_bytes());
  const auto kv_cache_bytes = static_cast<double>(state.kv_cache_asleep() ? 0 : memory_->kv_cache_bytes());
  if (state.weights_asleep()) {
    log_warning("Executor is already sleeping.");
    if (state.kv_cache_asleep()) return {};
  } else {
    UNSPOOL_TRY(attempt("The release of the weights", [&] { return memory_->release_weights(kept); }));
  }
  if (!state.kv_cache_asleep()) memory_->release_kv_cache();
  if (state.weights_asleep()) {
    state.release_kv_cache();
  } else {
    state.fall_asleep(kept);
  }
  log_freed(before);
  log_info(
      "CuMemAllocator: sleep freed {:.2f} GiB memory in total, of which {:.2f} GiB is backed up in CPU and the rest "
      "{:.2f} "
      "GiB is discarded directly.",
      gib(weight_bytes + kv_cache_bytes), gib(kept ? weight_bytes : 0.0),
      gib(kv_cache_bytes + (kept ? 0.0 : weight_bytes)));
  log_info("It took {:.6f} seconds to fall asleep.", monotonic_seconds() - start_s);
  return {};
}

Status MemorySleep::release_kv_cache(EngineState& state) {
  if (memory_ != nullptr) {
    const double before = resident_bytes();
    memory_->release_kv_cache();
    log_freed(before);
  } else {
    log_warning("Sleep mode is not enabled: nothing is freed. See --enable-sleep-mode.");
  }
  state.release_kv_cache();
  return {};
}

Status MemorySleep::wake(EngineState& state, bool weights, bool kv_cache) {
  weights = weights && state.weights_asleep();
  kv_cache = kv_cache && state.kv_cache_asleep();
  const double start_s = monotonic_seconds();
  Status woken;
  if (memory_ != nullptr) {
    // The cache first: to give it back, should the weights fail, loses nothing.
    if (kv_cache) UNSPOOL_TRY(attempt("The wake of the KV cache", [&] { return memory_->restore_kv_cache(); }));
    if (weights) woken = attempt("The wake of the weights", [&] { return memory_->restore_weights(); });
    if (!woken.ok() && woken.error().kind != ErrorKind::kConflict) {
      if (kv_cache) memory_->release_kv_cache();
      return woken;
    }
  }
  if (kv_cache) state.wake_kv_cache();
  if (weights) state.wake_weights();
  if (!woken.ok()) state.weights_lost();
  if (weights || kv_cache) {
    const char* tags = !kv_cache ? "['weights']" : !weights ? "['kv_cache']" : "['weights', 'kv_cache']";
    log_info("It took {:.6f} seconds to wake up tags {}.", monotonic_seconds() - start_s, tags);
  }
  return woken;
}

}  // namespace unspool
