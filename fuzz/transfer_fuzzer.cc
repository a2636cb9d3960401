// Any JSON as what a trainer announces, for each backend: an error, or tensors whose numbers hold together.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "transfer/transfer_info.h"

namespace {

void check(const unspool::UpdateInfo& update) {
  if (update.offsets && update.offsets->size() != update.tensors.size()) std::abort();
  for (const unspool::TensorSpec& spec : update.tensors) {
    const auto elements = spec.shape.checked_num_elements();
    if (!elements || !unspool::is_float_weight(spec.dtype)) std::abort();
    if (spec.num_updates && (*spec.num_updates < 0 || *spec.num_updates > *elements)) std::abort();
    const size_t item = static_cast<size_t>(unspool::dtype_size(spec.dtype));
    const size_t whole = static_cast<size_t>(*elements) * item;
    if (whole / item != static_cast<size_t>(*elements)) std::abort();
  }
  if (update.packing.buffer_bytes() < 1) std::abort();
}

void check(const unspool::InitInfo& init, unspool::TransferBackend backend) {
  if (backend == unspool::TransferBackend::kIpc) return;
  if (init.master_port < 1 || init.master_port > 65535 || init.master_address.empty()) std::abort();
  if (init.rank < 1 || init.rank >= init.world_size) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace unspool;
  const auto document = JsonDocument::parse({reinterpret_cast<const char*>(data), size});
  if (!document.ok()) return 0;
  for (const TransferBackend backend : {TransferBackend::kIpc, TransferBackend::kGloo}) {
    const auto update = parse_update_info(backend, document->root());
    if (update.ok()) check(*update);
    if (!update.ok() && update.error().message.empty()) std::abort();
    const auto init = parse_init_info(backend, document->root());
    if (init.ok()) check(*init, backend);
  }
  return 0;
}
