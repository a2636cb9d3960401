// A small model's weights behind a WeightStaging, and what they would be after a cold start.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "../weights/weights_test_util.h"
#include "backend/cpu/cpu_backend.h"
#include "layers/weight_staging.h"
#include "tensor/cast.h"

namespace unspool {

using Content = std::map<std::string, std::vector<std::byte>>;  // row-major, in the served type

// Made once: that a backend keeps the contract is measured when it is made.
inline Backend& plain_backend() {
  static ThreadPool pool(1);
  static const std::unique_ptr<Backend> backend = cpu::CpuBackend::create(pool, "").value();
  return *backend;
}
inline Backend& transfer_backend() {
  static ThreadPool pool(2);
  static const std::unique_ptr<Backend> backend = cpu::CpuBackend::create(pool, "").value();
  return *backend;
}

// Three tensors that share a matrix and panels, one of its own, an embedding that is the head too, vectors side by
// side.
inline void describe(WeightSet& weights) {
  EXPECT_TRUE(weights.add_matrix({{"embed", 40}}, 6).ok());
  weights.tie("head", "embed");
  EXPECT_TRUE(weights.add_matrix({{"q", 20}, {"k", 7}, {"v", 5}}, 10).ok());
  EXPECT_TRUE(weights.add_matrix({{"o", 33}}, 7).ok());
  weights.add_vector({{"n", 5}, {"m", 3}});
}

inline Content content_of(const WeightSet& weights) {
  Content content;
  for (const Parameter& parameter : weights.parameters()) content[parameter.name] = weights.read(parameter);
  return content;
}

class Staged {
 public:
  explicit Staged(DType dtype, WeightUpdateMode mode = WeightUpdateMode::kDoubleBuffer)
      : weights_(plain_backend(), dtype) {
    describe(weights_);
    staging_ = std::make_unique<WeightStaging>(weights_, transfer_backend(), mode);
  }

  WeightSet& weights() { return weights_; }
  WeightStaging& staging() { return *staging_; }
  Content content() const { return content_of(weights_); }
  Shape shape(const std::string& name) const {
    for (const Parameter& parameter : weights_.parameters())
      if (parameter.name == (name == "head" ? "embed" : name)) return parameter.shape;
    return {};
  }

  void begin() { staging_->begin(++session_); }
  uint64_t session() const { return session_; }
  Status settle(bool wanted) { return wanted ? staging_->settle(session_) : Status(); }
  Status put(const TestTensor& tensor) { return put(session_, tensor); }
  Status put(uint64_t session, const TestTensor& tensor) {
    const std::string shifted = "x" + tensor.bytes;  // at an odd address
    return staging_->put(session,
                         {.name = tensor.name,
                          .dtype = *parse_safetensors_dtype(tensor.dtype),
                          .shape = shape(tensor.name),
                          .num_updates = {}},
                         std::as_bytes(std::span(shifted)).subspan(1));
  }
  // Values of float32, so that every one is recognised.
  Status put_sparse(const std::string& name, const std::vector<int32_t>& indices, const std::vector<float>& values,
                    std::optional<int64_t> count = {}) {
    std::vector<std::byte> bytes(1 + 4 * (indices.size() + values.size()));
    if (!indices.empty()) std::memcpy(bytes.data() + 1, indices.data(), 4 * indices.size());
    if (!values.empty()) std::memcpy(bytes.data() + 1 + 4 * indices.size(), values.data(), 4 * values.size());
    return staging_->put(session_,
                         {.name = name,
                          .dtype = DType::kFloat32,
                          .shape = shape(name),
                          .num_updates = count.value_or(static_cast<int64_t>(indices.size()))},
                         std::span(bytes).subspan(1));
  }

 private:
  WeightSet weights_;
  std::unique_ptr<WeightStaging> staging_;
  uint64_t session_ = 0;
};

// Every tensor, of any bits: types by turns where none is given. A new set for every seed.
inline std::vector<TestTensor> tensors_of(unsigned seed, std::optional<std::string> dtype = {}) {
  WeightSet weights(plain_backend(), DType::kFloat32);
  describe(weights);
  std::mt19937 random(seed);
  constexpr const char* kTypes[] = {"F32", "BF16", "F16"};
  std::vector<TestTensor> tensors;
  for (const Parameter& parameter : weights.parameters()) {
    const std::string type = dtype.value_or(kTypes[(tensors.size() + seed) % 3]);
    std::string bytes(static_cast<size_t>(parameter.shape.num_elements()) * (type == "F32" ? 4 : 2), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    tensors.push_back({parameter.name, type, parameter.shape.to_string(), bytes});
  }
  return tensors;
}

inline TestTensor named(const std::vector<TestTensor>& tensors, const std::string& name, std::string as = {}) {
  TestTensor found = *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  if (!as.empty()) found.name = std::move(as);
  return found;
}

// What a start on a checkpoint with these tensors serves.
inline Content cold(DType dtype, const std::vector<TestTensor>& tensors) {
  WeightSet weights(plain_backend(), dtype);
  describe(weights);
  const TempDir dir;
  dir.write("model.safetensors", safetensors_of(tensors));
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
  EXPECT_TRUE(weights.check(checkpoint).ok());
  weights.load(checkpoint, [](size_t) {});
  return content_of(weights);
}

inline void set_element(Content& content, const std::string& name, int64_t index, float value, DType dtype) {
  const auto size = static_cast<size_t>(dtype_size(dtype));
  std::byte bytes[4];
  cast_elements(&value, DType::kFloat32, 1, dtype, bytes);
  std::memcpy(content[name].data() + static_cast<size_t>(index) * size, bytes, size);
}

}  // namespace unspool
