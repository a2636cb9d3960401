#include "server/serve_command.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "server/api_server.h"
#include "server/build_transfer.h"
#include "server/flag_help.h"
#include "server/options.h"
#include "server/serving_context.h"
#include "server/signals.h"
#include "server/version.h"
#include "threading/watched_workers.h"

namespace unspool {
namespace {

// Where the main thread waits for the end.
class StopGate {
 public:
  // The first signal. Before there is a server there is nothing to end well.
  void stop() {
    const std::lock_guard lock(mutex_);
    if (!serving_) std::_Exit(0);
    stopped_ = true;
    wake_.notify_one();
  }

  // Returns when told to stop (true), or once `healthy` says no.
  template <class Healthy>
  bool wait(Healthy healthy) {
    std::unique_lock lock(mutex_);
    serving_ = true;
    while (!stopped_) {
      if (!healthy()) return false;
      wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stopped_; });
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool serving_ = false;
  bool stopped_ = false;
};

int fail(const std::string& message, int status) {
  fmt::print(stderr, "unspool serve: {}\n", message);
  return status;
}

int serve(const ServeOptions& options, double started_s) {
  StopGate gate;
  const SignalWatcher signals([&] { gate.stop(); });
  if (const Status ready = check_transfer(options.control); !ready.ok()) return fail(ready.error().message, 1);
  auto context = build_serving_context(options);
  if (!context.ok()) return fail(context.error().message, 1);
  auto server = std::make_unique<ApiServer>(**context);
  if (const Status started = server->start(); !started.ok()) return fail(started.error().message, 1);
  log_start_summary(**context);
  log_info("Serving on {}, ready after {:.2f} s", server->address(), monotonic_seconds() - started_s);

  const bool told = gate.wait([&] { return (*context)->engine->healthy(); });
  if (told) {
    log_info("Stopping: running requests have {} s", options.shutdown_timeout_s);
  } else {
    log_error("The engine has failed; stopping");
  }
  server->shut_down(told ? options.shutdown_timeout_s : 0.0);
  log_info("Stopped");
  const int status = told ? 0 : 1;
  server.reset();
  context.value().reset();
  if (threads_left_behind() > 0) std::_Exit(status);
  return status;
}

}  // namespace

int serve_command(const std::vector<std::string>& words) {
  const double started_s = monotonic_seconds();
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") {
      fmt::print("{}", serve_help());
      return 0;
    }
    if (word == "--help-markdown") {
      fmt::print("{}", flags_markdown());
      return 0;
    }
    if (word == "--version") {
      fmt::print("{}\n", version_line());
      return 0;
    }
  }
  try {
    const auto options = parse_serve_options(words, [](const char* name) -> const char* { return std::getenv(name); });
    if (!options.ok()) return fail(options.error().message, 2);
    set_log_level(options->log_level);
    return serve(*options, started_s);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

}  // namespace unspool
