#include "transfer/interrupt.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace unspool {

Interrupt::Interrupt() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  UNSPOOL_CHECK(event_.is_open(), "no eventfd: errno {}", errno);
}

void Interrupt::set(Error why) {
  const std::lock_guard lock(mutex_);
  if (why_) return;
  why_ = std::move(why);
  const uint64_t one = 1;
  UNSPOOL_CHECK(::write(event_.get(), &one, sizeof(one)) == sizeof(one), "the eventfd is full");
}

void Interrupt::clear() {
  const std::lock_guard lock(mutex_);
  if (!why_) return;
  why_.reset();
  uint64_t count = 0;
  UNSPOOL_CHECK(::read(event_.get(), &count, sizeof(count)) == sizeof(count), "the eventfd is empty");
}

std::optional<Error> Interrupt::reason() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

TransferLimit::TransferLimit(double timeout_s, const Interrupt& interrupt)
    : timeout_s_(timeout_s), deadline_s_(monotonic_seconds() + timeout_s), interrupt_(interrupt) {}

double TransferLimit::remaining_s() const {
  return std::max(deadline_s_ - monotonic_seconds(), 0.0);
}

Status TransferLimit::check(std::string_view what) const {
  if (auto why = interrupt_.reason()) return *std::move(why);
  if (remaining_s() > 0) return {};
  return Error{ErrorKind::kTimeout,
               fmt::format("expected that {} within the {} s of --weight-transfer-timeout", what, timeout_s_),
               {}};
}

Status TransferLimit::wait(int fd, short events, std::string_view what) const {
  while (true) {
    UNSPOOL_TRY(check(what));
    pollfd waited[] = {{fd, events, 0}, {interrupt_.fd(), POLLIN, 0}};
    // Rounded up, so that the last round does not spin; an hour at most, since poll() counts in an int.
    const double wait_ms = std::min(std::ceil(remaining_s() * 1e3), 3.6e6);
    const int ready = ::poll(waited, 2, static_cast<int>(wait_ms));
    UNSPOOL_CHECK(ready >= 0 || errno == EINTR, "poll: errno {}", errno);
    if (ready > 0 && waited[0].revents != 0) return {};
  }
}

}  // namespace unspool
