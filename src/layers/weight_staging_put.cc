// How tensors come into a session, on the transfer's thread: in pieces, so that whoever ends it never waits for long.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "layers/weight_staging.h"
#include "weights/quote.h"

namespace unspool {
namespace {

// Bytes that are packed under one lock: at the 2 GB/s that are left beside a generation 2 ms, which is what a sleep in
// the midst of a transfer waits.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
// Likewise elements, each of which is a cache miss of 10 ns or so.
constexpr size_t kPieceElements = size_t{1} << 18;
// Elements in all that a commit writes over what is served. Where one in a hundred changes, every fourth cache line is
// read and written, and an element costs 4 to 5 ns on two threads: 7 ms of the engine's time for so many, which is 1%
// of SmolLM2-135M with some to spare. What is more goes through the second copy, which costs the transfer's thread the
// time to make one and the commit nothing.
constexpr size_t kMaxQueued = 1'500'000;

Error ended(uint64_t session) {
  return {ErrorKind::kConflict, fmt::format("Weight update session {} has ended.", session), {}};
}

}  // namespace

// One put at a time. A put that was cut leaves before the next one of another session comes in.
class WeightStaging::Turn {
 public:
  Turn(WeightStaging& staging, uint64_t session) : staging_(staging) {
    std::unique_lock lock(staging_.mutex_);
    staging_.turn_ended_.wait(lock, [&] { return !staging_.busy_ || staging_.open_ != session; });
    mine_ = !staging_.busy_ && session != 0 && staging_.open_ == session;
    if (mine_) staging_.busy_ = true;
  }
  ~Turn() {
    if (!mine_) return;
    std::lock_guard lock(staging_.mutex_);
    staging_.busy_ = false;
    staging_.turn_ended_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool mine() const { return mine_; }

 private:
  WeightStaging& staging_;
  bool mine_ = false;
};

template <class F>
Status WeightStaging::locked(uint64_t session, F f) {
  if (open_ != session) return ended(session);
  std::lock_guard lock(mutex_);
  if (open_ != session) return ended(session);
  return f();
}

template <class F>
Status WeightStaging::in_pieces(uint64_t session, size_t index, F f) {
  const Parameter& p = parameter(index);
  const int64_t rows = p.shape[0], row_bytes = p.shape[1] * dtype_size(DType::kFloat32);
  const int64_t most = std::max<int64_t>(kPieceBytes / std::max<int64_t>(row_bytes, 1), 1);
  for (int64_t first = 0, count; first < rows; first += count) {
    // To the end of a group of rows, as that is packed at once.
    const int64_t last =
        (p.first_row + first + most + Backend::kRowGroup - 1) / Backend::kRowGroup * Backend::kRowGroup;
    count = std::min(rows, last - p.first_row) - first;
    UNSPOOL_TRY(locked(session, [&] {
      f(first, count);
      return Status();
    }));
  }
  return {};
}

Status WeightStaging::put(uint64_t session, const TensorSpec& spec, std::span<const std::byte> bytes) {
  UNSPOOL_TRY(check(spec));
  if (bytes.size() != spec.size_bytes()) {
    return invalid_argument(
        fmt::format("tensor {}: expected {} bytes, got {}", quote_name(spec.name), spec.size_bytes(), bytes.size()));
  }
  SparseValues elements;
  if (spec.num_updates) {
    UNSPOOL_ASSIGN(elements, read_sparse(spec.name, bytes, *spec.num_updates, spec.dtype, weights_.dtype(),
                                         spec.shape.num_elements()));
  }
  const Turn turn(*this, session);
  if (!turn.mine()) return ended(session);

  const TensorView tensor{bytes.data(), spec.dtype, spec.shape};
  if (const auto found = head_by_name_.find(spec.name); found != head_by_name_.end()) {
    Head& head = heads_[found->second];
    if (!spec.num_updates) return put_head(session, head, tensor);
    return locked(session, [&]() -> Status {
      if (head.digest) {
        return invalid_argument(
            fmt::format("tensor {}: elements on top of a whole tensor of the same session cannot "
                        "be compared with what it is tied to; send it whole, or not at all",
                        quote_name(spec.name)));
      }
      head.elements = overlay(head.elements, elements);
      return {};
    });
  }
  if (const auto found = fusion_by_name_.find(spec.name); found != fusion_by_name_.end()) {
    const Fusion& fusion = weights_.fusions()[found->second];
    return spec.num_updates ? put_fused_elements(session, fusion, elements) : put_fused(session, fusion, tensor);
  }
  const size_t index = by_name_.find(spec.name)->second;
  if (spec.num_updates) return put_elements(session, index, elements);
  return parameter(index).matrix == nullptr ? put_vector(session, index, tensor) : put_matrix(session, index, tensor);
}

Status WeightStaging::settle(uint64_t session) {
  const Turn turn(*this, session);
  if (!turn.mine()) return ended(session);
  for (size_t i = 0; i < staged_.size(); ++i) {
    bool lacks = false;
    UNSPOOL_TRY(locked(session, [&] {
      lacks = lacks_rows(i);
      return Status();
    }));
    if (lacks) UNSPOOL_TRY(shadow_rows(session, i));
  }
  for (Head& head : heads_) UNSPOOL_TRY(digest_source(session, head));
  return {};
}

Status WeightStaging::put_fused(uint64_t session, const Fusion& fusion, const TensorView& tensor) {
  const auto* bytes = static_cast<const std::byte*>(tensor.data);
  for (const size_t index : fusion.parts) {
    const Shape& shape = parameter(index).shape;
    UNSPOOL_TRY(put_matrix(session, index, {bytes, tensor.dtype, shape}));
    bytes += shape.num_elements() * dtype_size(tensor.dtype);
  }
  return {};
}

Status WeightStaging::put_fused_elements(uint64_t session, const Fusion& fusion, const SparseValues& elements) {
  const auto size = static_cast<size_t>(dtype_size(elements.dtype));
  int64_t first = 0;  // of the part
  size_t at = 0;
  for (const size_t index : fusion.parts) {
    const int64_t end = first + parameter(index).shape.num_elements();
    SparseValues part{.indices = {}, .values = {}, .dtype = elements.dtype};
    const size_t begin = at;
    for (; at < elements.size() && elements.indices[at] < end; ++at)
      part.indices.push_back(static_cast<int32_t>(elements.indices[at] - first));
    const auto values = elements.values.begin() + static_cast<int64_t>(begin * size);
    part.values.assign(values, values + static_cast<int64_t>((at - begin) * size));
    // Also where there are none: the tensor has come.
    UNSPOOL_TRY(put_elements(session, index, part));
    first = end;
  }
  return {};
}

Status WeightStaging::put_matrix(uint64_t session, size_t index, const TensorView& tensor) {
  Staged& staged = staged_[index];
  UNSPOOL_TRY(locked(session, [&]() -> Status {
    UNSPOOL_TRY(open_shadow(index));
    changes(index);
    forget_queue(index);
    staged.shadowed = false;
    staged.brought = Brought::kNothing;
    return {};
  }));
  const Parameter& p = parameter(index);
  const auto* bytes = static_cast<const std::byte*>(tensor.data);
  const int64_t row_bytes = p.shape[1] * dtype_size(tensor.dtype);
  UNSPOOL_TRY(in_pieces(session, index, [&](int64_t first, int64_t count) {
    written_ = in_place();
    backend_.load_rows(target(index), p.first_row + first,
                       {bytes + first * row_bytes, tensor.dtype, Shape{count, p.shape[1]}});
  }));
  return locked(session, [&] {
    staged.shadowed = !in_place();
    staged.brought = Brought::kWhole;
    return Status();
  });
}

Status WeightStaging::put_vector(uint64_t session, size_t index, const TensorView& tensor) {
  return locked(session, [&] {
    Staged& staged = staged_[index];
    const std::span<float> served = parameter(index).vector;
    written_ = in_place();
    staged.shadowed = !in_place();
    if (staged.shadowed) staged.vector.resize(served.size());
    load_vector(tensor, weights_.dtype(), staged.shadowed ? std::span(staged.vector) : served);
    staged.brought = Brought::kWhole;
    return Status();
  });
}

Status WeightStaging::put_elements(uint64_t session, size_t index, const SparseValues& elements) {
  if (parameter(index).matrix == nullptr) return put_vector_elements(session, index, elements);
  Staged& staged = staged_[index];
  int64_t base = 0;
  std::vector<uint32_t> positions = elements.positions(parameter(index), &base);
  bool queued = false, needs_shadow = false;
  UNSPOOL_TRY(locked(session, [&]() -> Status {
    const bool served = !in_place() && !staged.shadowed;
    needs_shadow = served && (num_queued_ + elements.size() > kMaxQueued || compared_whole(index));
    queued = served && !needs_shadow;
    if (needs_shadow) UNSPOOL_TRY(open_shadow(index));
    changes(index);
    if (queued) queue(index, elements, std::move(positions), base);
    if (staged.brought == Brought::kNothing) staged.brought = Brought::kElements;
    return {};
  }));
  if (queued) return {};
  if (needs_shadow) UNSPOOL_TRY(shadow_rows(session, index));
  return write(session, index, elements);
}

Status WeightStaging::put_vector_elements(uint64_t session, size_t index, const SparseValues& elements) {
  std::vector<float> values(elements.size());
  load_vector({elements.values.data(), elements.dtype, Shape{static_cast<int64_t>(values.size())}}, weights_.dtype(),
              values);
  return locked(session, [&] {
    Staged& staged = staged_[index];
    const std::span<float> served = parameter(index).vector;
    written_ = in_place();
    if (!in_place() && !std::exchange(staged.shadowed, true)) staged.vector.assign(served.begin(), served.end());
    const std::span<float> to = in_place() ? served : std::span(staged.vector);
    for (size_t i = 0; i < values.size(); ++i) to[static_cast<size_t>(elements.indices[i])] = values[i];
    if (staged.brought == Brought::kNothing) staged.brought = Brought::kElements;
    return Status();
  });
}

Status WeightStaging::write(uint64_t session, size_t index, const SparseValues& elements) {
  int64_t base = 0;
  const auto positions = elements.positions(parameter(index), &base);
  for (size_t at = 0; at < positions.size(); at += kPieceElements) {
    const size_t count = std::min(kPieceElements, positions.size() - at);
    UNSPOOL_TRY(locked(session, [&] {
      written_ = in_place();
      const ElementWrites piece{.matrix = &target(index),
                                .base = base,
                                .positions = std::span(positions).subspan(at, count),
                                .values = elements.value(at).data()};
      backend_.write_elements({&piece, 1});
      return Status();
    }));
  }
  return {};
}

Status WeightStaging::shadow_rows(uint64_t session, size_t index) {
  const Parameter& p = parameter(index);
  UNSPOOL_TRY(in_pieces(session, index, [&](int64_t first, int64_t count) {
    backend_.copy_rows(*shadow(index).copy, *p.matrix, p.first_row + first, count);
  }));
  SparseValues queued;
  UNSPOOL_TRY(locked(session, [&] {
    queued = std::move(staged_[index].queued);
    num_queued_ -= queued.size();
    staged_[index].queued = {};
    staged_[index].positions = {};
    staged_[index].shadowed = true;
    return Status();
  }));
  return write(session, index, queued);
}

Status WeightStaging::put_head(uint64_t session, Head& head, const TensorView& tensor) {
  const Parameter& source = parameter(head.source);
  bool queued = false;
  UNSPOOL_TRY(locked(session, [&] {
    head.elements = {};
    head.digest.reset();
    queued = !staged_[head.source].queued.empty();
    return queued ? open_shadow(head.source) : Status();
  }));
  if (queued) UNSPOOL_TRY(shadow_rows(session, head.source));  // what is compared whole has nothing on top
  const auto* bytes = static_cast<const std::byte*>(tensor.data);
  const int64_t columns = source.shape[1], row_bytes = columns * dtype_size(tensor.dtype);
  std::unique_ptr<Matrix> packed;  // a piece, as its source has it
  Hash128 digest;
  Status made;
  UNSPOOL_TRY(in_pieces(session, head.source, [&](int64_t first, int64_t count) {
    if (packed == nullptr && made.ok()) {
      auto matrix = backend_.make_matrix(count, columns, weights_.dtype());
      if (!matrix.ok())
        made = matrix.error();
      else
        packed = std::move(matrix).value();
    }
    if (packed == nullptr) return;
    backend_.load_rows(*packed, 0, {bytes + first * row_bytes, tensor.dtype, Shape{count, columns}});
    digest = backend_.digest(*packed, 0, count, digest);
  }));
  UNSPOOL_TRY(made);
  UNSPOOL_TRY(locked(session, [&] {
    head.digest = digest;
    return Status();
  }));
  return {};
}

Status WeightStaging::digest_source(uint64_t session, Head& head) {
  bool wanted = false;
  UNSPOOL_TRY(locked(session, [&] {
    wanted = head.digest.has_value() && !head.source_digest.has_value();
    return Status();
  }));
  if (!wanted) return {};
  Hash128 digest;
  UNSPOOL_TRY(in_pieces(session, head.source, [&](int64_t first, int64_t count) {
    digest = backend_.digest(outcome(head.source), first, count, digest);
  }));
  return locked(session, [&] {
    head.source_digest = digest;
    return Status();
  });
}

Status WeightStaging::open_shadow(size_t index) {
  if (in_place()) return {};
  if (shadow(index).copy == nullptr) {
    // All of them before one is touched: small ones that lie side by side share huge pages (Buffer).
    for (Shadow& each : shadows_) {
      if (each.served == nullptr || each.copy != nullptr) continue;
      UNSPOOL_ASSIGN(each.copy,
                     backend_.make_matrix(each.served->rows(), each.served->columns(), each.served->dtype()));
    }
  }
  shadow(index).touched = shadow(index).resident = true;
  return {};
}

bool WeightStaging::lacks_rows(size_t index) {
  return parameter(index).matrix != nullptr && shadow(index).touched && !staged_[index].shadowed;
}

void WeightStaging::changes(size_t index) {
  for (Head& head : heads_)
    if (head.source == index) head.source_digest.reset();
}

bool WeightStaging::compared_whole(size_t index) const {
  return std::any_of(heads_.begin(), heads_.end(),
                     [&](const Head& head) { return head.source == index && head.digest.has_value(); });
}

void WeightStaging::queue(size_t index, const SparseValues& elements, std::vector<uint32_t> positions, int64_t base) {
  Staged& staged = staged_[index];
  const bool first = staged.queued.empty();
  num_queued_ -= staged.queued.size();
  staged.queued = overlay(staged.queued, elements);
  num_queued_ += staged.queued.size();
  staged.base = base;
  staged.positions = first ? std::move(positions) : staged.queued.positions(parameter(index), &staged.base);
}

void WeightStaging::forget_queue(size_t index) {
  num_queued_ -= staged_[index].queued.size();
  staged_[index].queued = {};
  staged_[index].positions = {};
}

ElementWrites WeightStaging::queued_writes(size_t index, Matrix& matrix) const {
  const Staged& staged = staged_[index];
  return {.matrix = &matrix, .base = staged.base, .positions = staged.positions, .values = staged.queued.values.data()};
}

}  // namespace unspool
