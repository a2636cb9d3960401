#include "server/served_checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/sha256.h"
#include "tensor/cast.h"
#include "weights/checkpoint.h"

namespace unspool {
namespace {

// Elements that are cast at once.
constexpr int64_t kPiece = 4096;

std::string checksum(const CheckpointTensor& tensor, DType served) {
  Sha256 hash;
  const auto step = static_cast<size_t>(dtype_size(tensor.dtype)), size = static_cast<size_t>(dtype_size(served));
  std::vector<std::byte> piece(kPiece * size);
  for (auto left = tensor.bytes; !left.empty();) {
    const size_t count = std::min<size_t>(kPiece, left.size() / step);
    cast_elements(left.data(), tensor.dtype, static_cast<int64_t>(count), served, piece.data());
    hash.add(piece.data(), count * size);
    left = left.subspan(count * step);
  }
  return hash.hex();
}

}  // namespace

Result<bool> ServedCheckpoint::differs(const std::map<std::string, std::string>& checksums) const {
  UNSPOOL_ASSIGN(const Checkpoint checkpoint,
                 dummies.empty() ? Checkpoint::open(path) : Checkpoint::dummy(path, dummies, dtype));
  for (const auto& [name, loaded] : checksums) {
    const auto tensor = checkpoint.find(name);
    if (!tensor || !is_float_weight(tensor->dtype) || checksum(*tensor, dtype) != loaded) return true;
  }
  return false;
}

}  // namespace unspool
