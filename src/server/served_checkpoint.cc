#include "server/served_checkpoint.h"

#include <cstring>
#include <vector>

#include "base/sha256.h"
#include "tensor/convert.h"
#include "weights/checkpoint.h"

namespace unspool {
namespace {

float read_float(const std::byte* from, DType dtype) {
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, from, sizeof(half));
  return dtype == DType::kBFloat16 ? bf16_to_float(half) : f16_to_float(half);
}

std::string checksum(const CheckpointTensor& tensor, DType served) {
  Sha256 hash;
  if (tensor.dtype == served) {
    hash.add(tensor.bytes.data(), tensor.bytes.size());
    return hash.hex();
  }
  // As loading converts: by way of float32.
  const auto step = static_cast<size_t>(dtype_size(tensor.dtype));
  for (size_t at = 0; at + step <= tensor.bytes.size(); at += step) {
    const float value = read_float(tensor.bytes.data() + at, tensor.dtype);
    if (served == DType::kFloat32) {
      hash.add(&value, sizeof(value));
    } else {
      const uint16_t half = served == DType::kBFloat16 ? float_to_bf16(value) : float_to_f16(value);
      hash.add(&half, sizeof(half));
    }
  }
  return hash.hex();
}

}  // namespace

Result<bool> ServedCheckpoint::differs(const std::map<std::string, std::string>& checksums) const {
  UNSPOOL_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  for (const auto& [name, loaded] : checksums) {
    const auto tensor = checkpoint.find(name);
    if (!tensor || checksum(*tensor, dtype) != loaded) return true;
  }
  return false;
}

}  // namespace unspool
