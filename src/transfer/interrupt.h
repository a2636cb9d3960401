// How a transfer is ended before it is over: by the clock, or by another thread.
#pragma once

#include <mutex>
#include <optional>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace unspool {

// Set by any thread; whoever waits on descriptors waits for this one too.
class Interrupt {
 public:
  Interrupt();
  // The first reason stays.
  void set(Error why);
  void clear();
  std::optional<Error> reason() const;
  int fd() const { return event_.get(); }  // readable once set

 private:
  mutable std::mutex mutex_;
  std::optional<Error> why_;
  Descriptor event_;
};

class TransferLimit {
 public:
  TransferLimit(double timeout_s, const Interrupt& interrupt);
  // kTimeout, or why it was interrupted. `what` had not happened by then: "the trainer's store answered".
  Status check(std::string_view what) const;
  // Waits until the descriptor has one of the poll() events (hang-ups are among them), within the limit.
  Status wait(int fd, short events, std::string_view what) const;
  double remaining_s() const;

 private:
  double timeout_s_;
  double deadline_s_;
  const Interrupt& interrupt_;
};

}  // namespace unspool
