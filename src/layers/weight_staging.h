// Where the tensors of a weight update wait, already packed, until a step boundary makes them the model's: all of them
// or none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layers/sparse_values.h"
#include "layers/weight_set.h"

namespace unspool {

enum class WeightUpdateMode {
  kDoubleBuffer,  // beside the weights that are served
  kInPlace,       // over them: half the memory, and a session that fails leaves nothing to serve
};

// What an update announces of a tensor, by its name in a checkpoint.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                         // of the whole tensor
  std::optional<int64_t> num_updates;  // sparse: that many of its elements

  // What the update carries for it: values, behind int32 indices where sparse. Of specs that were checked.
  size_t size_bytes() const;
};

class WeightStaging {
 public:
  // `backend` packs on threads of its own, beside the engine's; both outlive this. The model's tensors are all
  // described.
  WeightStaging(WeightSet& weights, Backend& backend, WeightUpdateMode mode);

  // Any thread: whether every tensor is one of the model's (or several of them fused, or a tied head, which is compared
  // at the end), once, of its shape and a dtype that can be cast.
  Status check(std::span<const TensorSpec> specs) const;

  // The transfer's thread. `bytes` is spec.size_bytes() long, row-major and perhaps unaligned; its sparse form is
  // int32 [n] flat indices into the whole tensor, ascending or not, then [n] values that replace what is there. A later
  // put of a tensor replaces an earlier one, a sparse one goes on top of it. kConflict: `session` is not the open one.
  // On any error but one of an ended session nothing has changed.
  Status put(uint64_t session, const TensorSpec& spec, std::span<const std::byte> bytes);
  // The transfer's thread, after the last put: does ahead what commit() would do for tensors that share a matrix with
  // those that came, and for a tied head. Not needed; it keeps the commit short.
  Status settle(uint64_t session);

  // The engine's thread, between steps.
  void begin(uint64_t session);
  // Tensors that the session has not brought, first ones of the model first. `whole`: nor those of which it has brought
  // some elements alone.
  std::vector<std::string> missing(bool whole = false) const;
  // Makes what was put the model's. kInvalidArgument (a redundant head that is not its embedding), kConflict (a put is
  // under way): nothing has changed, and the session is open.
  Status commit();
  // Waits for a put that is under way, which fails. Whether weights that are served were written.
  bool drop();
  // Gives the second copy's memory back. Not in a session.
  void release();
  size_t resident_bytes() const;

  WeightUpdateMode mode() const { return mode_; }

 private:
  enum class Brought { kNothing, kElements, kWhole };
  // A second memory for a matrix of the model.
  struct Shadow {
    Matrix* served = nullptr;
    std::unique_ptr<Matrix> copy = nullptr;
    bool touched = false;   // in this session
    bool resident = false;  // touched since it was made
  };
  struct Staged {  // a parameter, in this session
    Brought brought = Brought::kNothing;
    bool shadowed = false;            // its rows of the copy, or `vector`, hold what a commit makes of it
    std::vector<float> vector;        // where it has no matrix
    SparseValues queued;              // where it is not shadowed: what a commit writes over what is served
    std::vector<uint32_t> positions;  // of `queued`
    int64_t base = 0;
  };
  struct Head {  // a tied one, in this session
    size_t source = 0;
    std::optional<Hash128> digest;         // of what came for it whole
    std::optional<Hash128> source_digest;  // of its source, until that changes
    SparseValues elements;                 // of what came for it in part
  };
  class Turn;

  bool in_place() const { return mode_ == WeightUpdateMode::kInPlace; }
  const Parameter& parameter(size_t index) const { return weights_.parameters()[index]; }
  Shadow& shadow(size_t index) { return shadows_[shadow_of_[index]]; }
  // What of a parameter's matrix the session writes, and what a commit will serve.
  Matrix& target(size_t index) { return in_place() ? *parameter(index).matrix : *shadow(index).copy; }
  Matrix& outcome(size_t index);
  const Shape* expected_shape(const std::string& name) const;  // null: no such tensor
  Status check(const TensorSpec& spec) const;

  // f() under the lock, while the session is open.
  template <class F>
  Status locked(uint64_t session, F f);
  // f(first, count) under the lock for a matrix parameter's rows, a few at a time.
  template <class F>
  Status in_pieces(uint64_t session, size_t index, F f);

  Status put_fused(uint64_t session, const Fusion& fusion, const TensorView& tensor);
  Status put_fused_elements(uint64_t session, const Fusion& fusion, const SparseValues& elements);
  Status put_matrix(uint64_t session, size_t index, const TensorView& tensor);
  Status put_vector(uint64_t session, size_t index, const TensorView& tensor);
  Status put_elements(uint64_t session, size_t index, const SparseValues& elements);
  Status put_vector_elements(uint64_t session, size_t index, const SparseValues& elements);
  Status put_head(uint64_t session, Head& head, const TensorView& tensor);
  Status write(uint64_t session, size_t index, const SparseValues& elements);
  // The served rows into the copy, and what is queued on top.
  Status shadow_rows(uint64_t session, size_t index);
  Status digest_source(uint64_t session, Head& head);

  // Under the lock.
  Status open_shadow(size_t index);
  bool lacks_rows(size_t index);  // of a matrix that was touched
  void changes(size_t index);
  void queue(size_t index, const SparseValues& elements, std::vector<uint32_t> positions, int64_t base);
  void forget_queue(size_t index);
  ElementWrites queued_writes(size_t index, Matrix& matrix) const;
  bool compared_whole(size_t index) const;
  Status check_head(const Tie& tie, Head& head);
  bool agrees(const Head& head);
  void end_session();

  WeightSet& weights_;
  Backend& backend_;
  const WeightUpdateMode mode_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, size_t, std::less<>> head_by_name_;
  std::map<std::string, size_t, std::less<>> fusion_by_name_;
  std::vector<size_t> shadow_of_;  // [parameters]

  // The open session, 0 where none is. Changed under the lock; read without it by a put that is to leave.
  std::atomic<uint64_t> open_{0};
  mutable std::mutex mutex_;
  std::condition_variable turn_ended_;
  // Guarded by mutex_.
  bool busy_ = false;     // a put is between two of its pieces
  bool written_ = false;  // served weights, in this session
  std::vector<Shadow> shadows_;
  std::vector<Staged> staged_;  // [parameters]
  std::vector<Head> heads_;     // [ties]
  size_t num_queued_ = 0;       // elements
};

}  // namespace unspool
