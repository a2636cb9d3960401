#include "server/signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

#include "base/log.h"

namespace unspool {
namespace {

// Tells the watcher to end; nobody else sends it to this thread.
constexpr int kEndWatch = SIGUSR2;

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kEndWatch}) sigaddset(&set, signal);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher(std::function<void()> on_first) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A client that goes away while we write is an error of that write, not a signal.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this, on_first = std::move(on_first)] { run(on_first); });
}

SignalWatcher::~SignalWatcher() {
  pthread_kill(thread_.native_handle(), kEndWatch);
  thread_.join();
}

void SignalWatcher::run(const std::function<void()>& on_first) {
  const sigset_t set = watched_signals();
  for (bool first = true;; first = false) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0 || signal == kEndWatch) return;
    if (!first) {
      log_warning("Second signal: ending at once");
      std::_Exit(128 + signal);
    }
    on_first();
  }
}

}  // namespace unspool
