#include "layers/weight_set.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tensor/cast.h"
#include "tensor/convert.h"
#include "weights/tensor_loader.h"

namespace unspool {
namespace {

// Pages of the checkpoint that were read stay resident until they are dropped: this much at once, beside the packed
// weights.
constexpr size_t kDropEveryBytes = size_t{64} << 20;
// Rows that are read from a matrix at once: a panel of the CPU backend's.
constexpr int64_t kReadRows = 16;

}  // namespace

void load_vector(const TensorView& tensor, DType served, std::span<float> vector) {
  const auto count = static_cast<int64_t>(vector.size());
  std::vector<std::byte> rounded(static_cast<size_t>(count * dtype_size(served)));
  cast_elements(tensor.data, tensor.dtype, count, served, rounded.data());
  cast_elements(rounded.data(), served, count, DType::kFloat32, vector.data());
}

size_t Parameter::size_bytes(DType dtype) const {
  return static_cast<size_t>(shape.num_elements() * dtype_size(dtype));
}

Result<const Matrix*> WeightSet::add_matrix(const std::vector<Part>& parts, int64_t columns) {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  UNSPOOL_ASSIGN(auto matrix, backend_->make_matrix(rows, columns, dtype_));
  int64_t row = 0;
  for (const Part& part : parts) {
    parameters_.push_back({part.name, Shape{part.rows, columns}, matrix.get(), row, {}});
    row += part.rows;
  }
  matrices_.push_back(std::move(matrix));
  return matrices_.back().get();
}

std::span<const float> WeightSet::add_vector(const std::vector<Part>& parts) {
  int64_t size = 0;
  for (const Part& part : parts) size += part.rows;
  vectors_.emplace_back(static_cast<size_t>(size));
  const std::span<float> whole = vectors_.back();
  size_t at = 0;
  for (const Part& part : parts) {
    const auto rows = static_cast<size_t>(part.rows);
    parameters_.push_back({part.name, Shape{part.rows}, nullptr, 0, whole.subspan(at, rows)});
    at += rows;
  }
  return whole;
}

void WeightSet::tie(std::string name, std::string source) {
  ties_.push_back({std::move(name), std::move(source)});
}

void WeightSet::fuse(std::string name, const Shape& shape, std::vector<size_t> parts) {
  int64_t elements = 0;
  for (const size_t part : parts) {
    UNSPOOL_CHECK(parameters_[part].matrix != nullptr, "{} is no matrix", parameters_[part].name);
    fused_parts_.emplace(part, FusedPart{fusions_.size(), elements});
    elements += parameters_[part].shape.num_elements();
  }
  UNSPOOL_CHECK(elements == shape.num_elements(), "{} parts of {} elements for {}", parts.size(), elements,
                shape.to_string());
  fusions_.push_back({std::move(name), shape, std::move(parts)});
}

TensorView WeightSet::find(const Checkpoint& checkpoint, size_t index) const {
  const Parameter& parameter = parameters_[index];
  if (const auto part = fused_parts_.find(index); part != fused_parts_.end()) {
    if (const auto whole = checkpoint.find(fusions_[part->second.fusion].name)) {
      const int64_t offset = part->second.first_element * dtype_size(whole->dtype);
      return {whole->bytes.data() + offset, whole->dtype, parameter.shape};
    }
  }
  const auto tensor = checkpoint.find(parameter.name);
  UNSPOOL_CHECK(tensor.has_value() && tensor->shape == parameter.shape, "{} was not checked", parameter.name);
  return tensor->view();
}

size_t WeightSet::size_bytes() const {
  size_t total = 0;
  for (const auto& matrix : matrices_) total += matrix->size_bytes();
  for (const auto& vector : vectors_) total += vector.size() * sizeof(float);
  return total;
}

Status WeightSet::check(const Checkpoint& checkpoint) const {
  WeightLoader loader(checkpoint);
  for (const Fusion& fusion : fusions_) {
    if (!loader.has(fusion.name)) continue;
    if (auto tensor = loader.take(fusion.name, fusion.shape); !tensor.ok()) return tensor.error();
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto part = fused_parts_.find(i);
    if (part != fused_parts_.end() && loader.has(fusions_[part->second.fusion].name)) continue;
    if (auto tensor = loader.take(parameters_[i].name, parameters_[i].shape); !tensor.ok()) return tensor.error();
  }
  for (const Tie& tie : ties_) loader.accept_tied(tie.name, tie.source);
  return loader.finish();
}

void WeightSet::load(const Checkpoint& checkpoint, const LoadProgress& progress) {
  size_t since_drop = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const TensorView tensor = find(checkpoint, i);
    store(parameters_[i], tensor);
    const auto size = static_cast<size_t>(tensor.shape.num_elements() * dtype_size(tensor.dtype));
    progress(size);
    since_drop += size;
    if (since_drop < kDropEveryBytes) continue;
    checkpoint.drop_pages();
    since_drop = 0;
  }
  checkpoint.drop_pages();
}

void WeightSet::store(const Parameter& parameter, const TensorView& tensor) {
  if (parameter.matrix != nullptr) return backend_->load_rows(*parameter.matrix, parameter.first_row, tensor);
  load_vector(tensor, dtype_, parameter.vector);
}

void WeightSet::read(const Parameter& parameter, const ByteSink& sink) const {
  const auto size = static_cast<size_t>(dtype_size(dtype_));
  if (parameter.matrix != nullptr) {
    const int64_t rows = parameter.shape[0], columns = parameter.shape[1];
    std::vector<std::byte> piece(static_cast<size_t>(kReadRows * columns) * size);
    for (int64_t row = 0; row < rows; row += kReadRows) {
      const int64_t count = std::min(kReadRows, rows - row);
      parameter.matrix->read_rows(parameter.first_row + row, count, piece.data());
      sink(piece.data(), static_cast<size_t>(count * columns) * size);
    }
    return;
  }
  if (dtype_ == DType::kFloat32) return sink(parameter.vector.data(), parameter.vector.size_bytes());
  std::vector<uint16_t> halves;
  for (const float value : parameter.vector)  // exact: they hold nothing else
    halves.push_back(dtype_ == DType::kBFloat16 ? static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)
                                                : float_to_f16(value));
  sink(halves.data(), halves.size() * sizeof(uint16_t));
}

std::vector<std::byte> WeightSet::read(const Parameter& parameter) const {
  std::vector<std::byte> all;
  all.reserve(parameter.size_bytes(dtype_));
  read(parameter, [&](const void* bytes, size_t size_bytes) {
    const auto* from = static_cast<const std::byte*>(bytes);
    all.insert(all.end(), from, from + size_bytes);
  });
  return all;
}

void WeightSet::write(const Parameter& parameter, std::span<const std::byte> bytes) {
  UNSPOOL_CHECK(bytes.size() == parameter.size_bytes(dtype_), "{} bytes for {}", bytes.size(), parameter.name);
  store(parameter, {bytes.data(), dtype_, parameter.shape});
}

void WeightSet::zero() {
  for (const auto bytes : storage()) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  for (auto& vector : vectors_) std::fill(vector.begin(), vector.end(), 0.0f);
}

void WeightSet::release() {
  for (const auto& matrix : matrices_) matrix->release();
  released_ = true;
}

Status WeightSet::allocate() {
  for (const auto& matrix : matrices_) {
    const Status status = matrix->allocate();
    if (status.ok()) continue;
    release();
    return status;
  }
  released_ = false;
  return {};
}

std::vector<std::span<std::byte>> WeightSet::storage() {
  std::vector<std::span<std::byte>> all;
  all.reserve(matrices_.size());
  for (const auto& matrix : matrices_) all.push_back(matrix->storage());
  return all;
}

}  // namespace unspool
