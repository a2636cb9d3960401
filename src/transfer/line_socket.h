// Lines of text to and from another process, each way within a limit.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/descriptor.h"
#include "base/result.h"
#include "transfer/interrupt.h"

namespace unspool {

class LineSocket {
 public:
  // Two ends that are connected; ours, and the descriptor for the other process.
  static Result<std::pair<LineSocket, Descriptor>> pair();

  // `line` without its end. kTimeout where the other side has gone, or does not read.
  Status send(std::string line, const TransferLimit& limit);
  // Without its end. kTimeout as above; kInternal where it is too long to be one.
  Result<std::string> receive(const TransferLimit& limit, std::string_view what);
  // Whether the other end is closed.
  bool is_closed() const;

 private:
  explicit LineSocket(Descriptor socket) : socket_(std::move(socket)) {}
  Descriptor socket_;
  std::string read_;  // past the last line
};

}  // namespace unspool
