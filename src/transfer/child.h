// A child process that can be waited for, and ended, at any time.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace unspool {

class Child {
 public:
  Child() = default;  // none
  // `command` is looked up on PATH. The child has `inherited` as descriptors 3, 4, ... and no others but the standard
  // ones: no input, and what it writes goes to `output`, or where our errors go. A group of its own, so that a Ctrl-C
  // is ours to handle; `environment` is "NAME=value"s.
  static Result<Child> spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                             std::span<const int> inherited, std::optional<int> output = std::nullopt);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  // Ends it at once, with what it has started itself, and takes its exit status.
  ~Child();

  // As waitpid() tells it; nullopt while it runs. Does not wait.
  std::optional<int> wait_status();
  bool is_running() { return pid_ > 0 && !wait_status(); }

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// "it exited with status 1", "it was ended by signal 9"
std::string describe_exit(int wait_status);

}  // namespace unspool
