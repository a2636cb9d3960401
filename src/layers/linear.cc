#include "layers/linear.h"

#include <cstring>

#include "base/check.h"
#include "tensor/convert.h"

namespace unspool {
namespace {

float element(const TensorView& view, int64_t index) {
  const auto* base = static_cast<const unsigned char*>(view.data);
  if (view.dtype == DType::kFloat32) {
    float value;
    std::memcpy(&value, base + index * 4, 4);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, base + index * 2, 2);
  return view.dtype == DType::kBFloat16 ? bf16_to_float(half) : f16_to_float(half);
}

// Rounds to what the served dtype holds: a bias or a norm weight is stored in it like every other weight.
float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::kBFloat16:
      return bf16_to_float(float_to_bf16(value));
    case DType::kFloat16:
      return f16_to_float(float_to_f16(value));
    default:
      return value;
  }
}

}  // namespace

Result<std::vector<float>> LayerLoader::vector(const std::string& name, int64_t size) {
  UNSPOOL_ASSIGN(const CheckpointTensor tensor, weights.take(name, Shape{size}));
  const TensorView view = tensor.view();
  std::vector<float> values(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i)] = round_to(dtype, element(view, i));
  progress(view.size_bytes());
  return values;
}

Result<Linear> Linear::load(LayerLoader& loader, const std::vector<LinearPart>& parts, int64_t columns, bool bias) {
  int64_t rows = 0;
  for (const auto& part : parts) rows += part.rows;
  Linear linear;
  UNSPOOL_ASSIGN(linear.matrix_, loader.backend.make_matrix(rows, columns, loader.dtype));
  int64_t row = 0;
  for (const auto& part : parts) {
    UNSPOOL_ASSIGN(const CheckpointTensor tensor, loader.weights.take(part.prefix + ".weight", Shape{part.rows, columns}));
    loader.backend.load_rows(*linear.matrix_, row, tensor.view());
    loader.progress(tensor.view().size_bytes());
    row += part.rows;
    if (!bias) continue;
    UNSPOOL_ASSIGN(const std::vector<float> values, loader.vector(part.prefix + ".bias", part.rows));
    linear.bias_.insert(linear.bias_.end(), values.begin(), values.end());
  }
  return linear;
}

}  // namespace unspool
