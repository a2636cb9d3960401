// What a trainer announces: where to meet, and then which tensors an update brings. Everything that words alone can
// tell is checked here (docs/adr/0006-weights-through-shared-memory.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/json.h"
#include "layers/weight_staging.h"

namespace unspool {

enum class TransferBackend { kIpc, kGloo };

std::optional<TransferBackend> parse_transfer_backend(std::string_view name);
// For refusals of anything else.
inline constexpr std::string_view kTransferBackends =
    "this build moves weights by \"ipc\" (POSIX shared memory, on one host) and \"gloo\" (torch.distributed)";

// Trainers say it at init, at each update, or at both; the update wins.
struct Packing {
  std::optional<bool> packed = std::nullopt;
  std::optional<int64_t> buffer_size_bytes = std::nullopt;

  Packing over(const Packing& base) const;
  bool is_packed() const { return packed.value_or(false); }
  int64_t buffer_bytes() const { return buffer_size_bytes.value_or(int64_t{1} << 30); }  // the reference's default
};

struct InitInfo {
  Packing packing = {};
  // gloo: the trainer's store, and our place among `world_size` members.
  std::string master_address = {};
  int master_port = 0;
  int rank = 0;
  int world_size = 0;
};

struct UpdateInfo {
  std::vector<TensorSpec> tensors = {};
  Packing packing = {};
  bool partial = false;
  // It said is_checkpoint_format: by that, trainers that know no start and finish can be told.
  bool is_whole_session = false;
  // ipc: tensor i at offsets[i] of the segment; none: one behind the other.
  std::string shm_name = {};
  std::optional<std::vector<int64_t>> offsets = {};
};

// Errors are the client's, and name the key.
Result<InitInfo> parse_init_info(TransferBackend backend, const JsonValue& info);
// `info` is an object, or the list of one for each worker, of which there is one here.
Result<UpdateInfo> parse_update_info(TransferBackend backend, const JsonValue& info);
// What it says of the session that it belongs to, whatever else is wrong with it.
std::optional<std::string> parse_session_name(const JsonValue& info);

}  // namespace unspool
