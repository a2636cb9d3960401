#include "transfer/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"

namespace unspool {
namespace {

constexpr int kFirstInherited = 3;

std::vector<char*> c_strings(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// posix_spawn()'s two sets of things to do in the child.
class SpawnPlan {
 public:
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // Ours are blocked or ignored for reasons that are not the child's.
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // Not every descriptor of ours is closed by exec: only these go over.
  void descriptors(std::span<const int> inherited, int output) {
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    int next = kFirstInherited;
    for (const int fd : inherited) posix_spawn_file_actions_adddup2(&actions_, fd, next++);
    posix_spawn_file_actions_addclosefrom_np(&actions_, next);
  }

  int spawn(pid_t& pid, const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    return ::posix_spawnp(&pid, command.front().c_str(), &actions_, &attributes_, c_strings(command).data(),
                          c_strings(environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Result<Child> Child::spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                           std::span<const int> inherited, std::optional<int> output) {
  // Copies beyond the numbers that they get in the child, so that none lands on one that is still to be copied.
  std::vector<Descriptor> copies;
  std::vector<int> sources;
  const auto copy = [&](int fd) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstInherited + static_cast<int>(inherited.size())));
    return copies.back().get();
  };
  for (const int fd : inherited) sources.push_back(copy(fd));
  SpawnPlan plan;
  plan.descriptors(sources, output ? copy(*output) : STDERR_FILENO);
  Child child;
  const int error = plan.spawn(child.pid_, command, environment);
  if (error != 0) {
    child.pid_ = -1;
    return invalid_argument(fmt::format("cannot start {}: {}", command.front(), std::strerror(error)));
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), status_(std::exchange(other.status_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  if (pid_ <= 0 || wait_status()) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> Child::wait_status() {
  int status = 0;
  if (!status_ && pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

std::string describe_exit(int wait_status) {
  return WIFSIGNALED(wait_status) ? fmt::format("it was ended by signal {}", WTERMSIG(wait_status))
                                  : fmt::format("it exited with status {}", WEXITSTATUS(wait_status));
}

}  // namespace unspool
