// The weights of a model: where each tensor of a checkpoint goes, and the memory it goes to. A model describes itself
// here once; loading, checking, checksums, sleep and updates all follow that description.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "tensor/shape.h"
#include "weights/checkpoint.h"

namespace unspool {

// Tells how far loading has come, in bytes of the checkpoint.
using LoadProgress = std::function<void(size_t bytes)>;

// One tensor of the checkpoint, by its name there: rows of a matrix, or (a bias, a norm) part of a vector.
struct Parameter {
  std::string name;
  Shape shape;
  Matrix* matrix = nullptr;
  int64_t first_row = 0;
  std::span<float> vector;  // where matrix is null

  size_t size_bytes(DType dtype) const;
};

// A tensor that a checkpoint may have under another name too.
struct Tie {
  std::string name, source;
};

// Tensors that a checkpoint may have as one instead: `shape`, whose bytes are the parameters', one behind the other.
struct Fusion {
  std::string name;
  Shape shape;
  std::vector<size_t> parts;  // indices into WeightSet::parameters()
};

// A vector's values in what the served dtype holds: a bias or a norm is stored in it like every other weight.
void load_vector(const TensorView& tensor, DType served, std::span<float> vector);

class WeightSet {
 public:
  // One tensor of a stack: [rows, columns], or [rows].
  struct Part {
    std::string name;
    int64_t rows;
  };

  // `dtype` is the served one. The backend outlives the set.
  WeightSet(Backend& backend, DType dtype) : backend_(&backend), dtype_(dtype) {}

  // The parts one below the other. What is returned lives as long as the set, wherever the set is moved.
  Result<const Matrix*> add_matrix(const std::vector<Part>& parts, int64_t columns);
  std::span<const float> add_vector(const std::vector<Part>& parts);
  // A checkpoint may have `name`, which in this model is the tensor `source`.
  void tie(std::string name, std::string source);

  // A checkpoint may have these matrices' parameters fused into `name`.
  void fuse(std::string name, const Shape& shape, std::vector<size_t> parts);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Fusion>& fusions() const { return fusions_; }
  const std::vector<Tie>& ties() const { return ties_; }
  DType dtype() const { return dtype_; }
  size_t size_bytes() const;  // whether released or not

  // Whether the checkpoint has exactly these tensors; an error names what is missing, mis-shaped or surplus.
  Status check(const Checkpoint& checkpoint) const;
  // Takes the tensors of a checkpoint that was checked; the bits depend on nothing that was there before.
  void load(const Checkpoint& checkpoint, const LoadProgress& progress);

  // A parameter's row-major bytes in the served dtype, in pieces: f(bytes, size_bytes). Several threads may read at
  // once.
  using ByteSink = std::function<void(const void* bytes, size_t size_bytes)>;
  void read(const Parameter& parameter, const ByteSink& sink) const;
  std::vector<std::byte> read(const Parameter& parameter) const;
  // The inverse, of size_bytes(dtype()) bytes.
  void write(const Parameter& parameter, std::span<const std::byte> bytes);

  void zero();
  // Matrices give their memory back; vectors are a thousandth of it, and stay.
  void release();
  // After release(): zeros. On an error everything is released.
  Status allocate();
  bool is_released() const { return released_; }
  // What release() frees, in an order of its own that stays.
  std::vector<std::span<std::byte>> storage();

 private:
  void store(const Parameter& parameter, const TensorView& tensor);
  // Where a checkpoint that was checked has it, fused or not.
  TensorView find(const Checkpoint& checkpoint, size_t index) const;

  Backend* backend_;
  DType dtype_;
  std::vector<std::unique_ptr<Matrix>> matrices_;
  std::vector<std::vector<float>> vectors_;
  std::vector<Parameter> parameters_;
  std::vector<Tie> ties_;
  std::vector<Fusion> fusions_;
  struct FusedPart {
    size_t fusion;
    int64_t first_element;
  };
  std::map<size_t, FusedPart> fused_parts_;  // by parameter
  bool released_ = false;
};

}  // namespace unspool
