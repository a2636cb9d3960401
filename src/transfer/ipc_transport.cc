#include "transfer/ipc_transport.h"

#include <fmt/format.h>

#include "weights/quote.h"

namespace unspool {

Status IpcTransport::init(const InitInfo& info, const TransferLimit&) {
  memory_.release_all();
  SharedMemory::sweep();
  packing_ = info.packing;
  return {};
}

Result<IpcTransport::Placed> IpcTransport::place(const UpdateInfo& update) {
  if (!update.offsets && !update.packing.over(packing_).is_packed()) {
    return invalid_argument("update_info.offsets: expected one for each of names, or \"packed\": true, got neither",
                            "update_info.offsets");
  }
  Placed placed;
  UNSPOOL_ASSIGN(placed.segment, memory_.find_or_map(update.shm_name));
  const auto bytes = placed.segment->bytes();
  size_t next = 0;
  for (size_t i = 0; i < update.tensors.size(); ++i) {
    const size_t offset = update.offsets ? static_cast<size_t>((*update.offsets)[i]) : next;
    const size_t size = update.tensors[i].size_bytes();
    if (offset > bytes.size() || size > bytes.size() - offset) {
      return invalid_argument(
          fmt::format("update_info.offsets[{}] of {}: expected {} bytes from {} on, got a segment of {} bytes", i,
                      quote_name(update.tensors[i].name), size, offset, bytes.size()),
          "update_info.offsets");
    }
    placed.tensors.push_back(bytes.subspan(offset, size));
    next = offset + size;
  }
  return placed;
}

Status IpcTransport::check(const UpdateInfo& update) {
  const auto placed = place(update);
  return placed.ok() ? Status() : placed.error();
}

Status IpcTransport::receive(const UpdateInfo& update, const Sink& sink, const TransferLimit& limit) {
  UNSPOOL_ASSIGN(const Placed placed, place(update));
  for (size_t i = 0; i < placed.tensors.size(); ++i) {
    UNSPOOL_TRY(limit.check("the tensors were copied"));
    UNSPOOL_TRY(sink(i, placed.tensors[i]));
  }
  return placed.segment->check_whole();
}

bool IpcTransport::tend(bool asleep) {
  memory_.release_abandoned();
  if (asleep) memory_.drop_pages();
  return !memory_.empty();
}

}  // namespace unspool
