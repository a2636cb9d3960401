// "ipc": tensors lie in shared memory that a trainer on this host has filled.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transfer/shared_memory.h"
#include "transfer/transport.h"

namespace unspool {

class IpcTransport final : public WeightTransport {
 public:
  IpcTransport() { SharedMemory::sweep(); }
  Status init(const InitInfo& info, const TransferLimit& limit) override;
  Status check(const UpdateInfo& update) override;
  Status receive(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) override;
  void give_up() override {}
  void shut_down() override { memory_.release_all(); }
  bool tend(bool asleep) override;

 private:
  // Where each tensor lies, within the segment.
  struct Placed {
    const SharedSegment* segment;
    std::vector<std::span<const std::byte>> tensors;
  };
  Result<Placed> place(const UpdateInfo& update);

  SharedMemory memory_;
  Packing packing_;
};

}  // namespace unspool
