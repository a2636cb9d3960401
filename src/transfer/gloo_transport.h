// "gloo": torch.distributed across hosts, spoken by a child process (ADR 6). It puts tensors into memory that both map;
// it can hang or die, and is ended then.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "transfer/child.h"
#include "transfer/growing_memory.h"
#include "transfer/line_socket.h"
#include "transfer/transport.h"

namespace unspool {

class GlooTransport final : public WeightTransport {
 public:
  // `command` starts the child; how it is told its descriptors is appended.
  explicit GlooTransport(std::vector<std::string> command) : command_(std::move(command)) {}

  Status init(const InitInfo& info, const TransferLimit& limit) override;
  Status check(const UpdateInfo& update) override;
  Status receive(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) override;
  // The group ends: a trainer that broadcasts to us hears of it, and does not wait for ever.
  void give_up() override { shut_down(); }
  void shut_down() override { side_.reset(); }
  bool tend(bool asleep) override;

 private:
  struct SideProcess {
    Child child;
    LineSocket socket;
    GrowingMemory memory;
  };
  Status start();
  // Of an operation: what is wrong with the peers or with the process, which is gone then.
  Error failed(Error error);
  Status meet(const InitInfo& info, const TransferLimit& limit);
  Status take(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit);

  const std::vector<std::string> command_;
  std::optional<SideProcess> side_;
  Packing packing_;
};

}  // namespace unspool
