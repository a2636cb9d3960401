// What carries tensors from a trainer to here. One thread uses a transport.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "transfer/interrupt.h"
#include "transfer/transfer_info.h"

namespace unspool {

// kInvalidArgument: what the client said cannot be. kTimeout: a peer is late, or gone. kInternal: not initialised.
class WeightTransport {
 public:
  // A whole tensor of the update, by its place there; the bytes last until the call returns. What it fails with ends
  // the update.
  using Sink = std::function<Status(size_t tensor, std::span<const std::byte> bytes)>;

  virtual ~WeightTransport() = default;
  // Meets the peers; those of before are left.
  virtual Status init(const InitInfo& info, const TransferLimit& limit) = 0;
  // Before the first byte of an update moves: what can be known of it by then.
  virtual Status check(const UpdateInfo& update) = 0;
  // Each tensor once. After an error some were given, and others not.
  virtual Status receive(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) = 0;
  // An update was refused, or failed: where peers may wait for us to take part in it, they have to notice.
  virtual void give_up() = 0;
  // Leaves the peers, and gives memory back.
  virtual void shut_down() = 0;
  // Every second or so while nothing happens: looks whether peers are still there. False where nobody has to look.
  // `asleep`: the model's memory is given back, and what is held here beside it goes as well.
  virtual bool tend(bool asleep) = 0;
};

}  // namespace unspool
