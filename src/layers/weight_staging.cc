// The session: what is open, what it has brought, and how it ends. Puts are in weight_staging_put.cc.
#include "layers/weight_staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "weights/quote.h"

namespace unspool {

size_t TensorSpec::size_bytes() const {
  const auto size = static_cast<size_t>(dtype_size(dtype));
  if (num_updates) return static_cast<size_t>(*num_updates) * (sizeof(int32_t) + size);
  return static_cast<size_t>(shape.num_elements()) * size;
}

WeightStaging::WeightStaging(WeightSet& weights, Backend& backend, WeightUpdateMode mode)
    : weights_(weights), backend_(backend), mode_(mode) {
  const auto& parameters = weights_.parameters();
  std::map<const Matrix*, size_t> known;
  for (size_t i = 0; i < parameters.size(); ++i) {
    by_name_.emplace(parameters[i].name, i);
    Matrix* matrix = parameters[i].matrix;
    const auto [found, added] = known.emplace(matrix, shadows_.size());
    if (added) shadows_.push_back({.served = matrix});
    shadow_of_.push_back(found->second);
  }
  staged_.resize(parameters.size());
  for (size_t i = 0; i < weights_.fusions().size(); ++i) fusion_by_name_.emplace(weights_.fusions()[i].name, i);
  for (const Tie& tie : weights_.ties()) {
    const size_t source = by_name_.at(tie.source);
    const Parameter& whole = parameters[source];
    UNSPOOL_CHECK(whole.matrix != nullptr && whole.shape[0] == whole.matrix->rows(), "{} is part of a matrix",
                  tie.source);
    head_by_name_.emplace(tie.name, heads_.size());
    heads_.push_back({.source = source, .digest = {}, .source_digest = {}, .elements = {}});
  }
}

const Shape* WeightStaging::expected_shape(const std::string& name) const {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return &parameter(found->second).shape;
  if (const auto fusion = fusion_by_name_.find(name); fusion != fusion_by_name_.end())
    return &weights_.fusions()[fusion->second].shape;
  const auto head = head_by_name_.find(name);
  return head == head_by_name_.end() ? nullptr : &parameter(heads_[head->second].source).shape;
}

Status WeightStaging::check(const TensorSpec& spec) const {
  const Shape* shape = expected_shape(spec.name);
  if (shape == nullptr) {
    return invalid_argument(
        fmt::format("There is no module or parameter named {} in the model.", quote_name(spec.name)));
  }
  const Shape& expected = *shape;
  if (spec.shape != expected) {
    return invalid_argument(fmt::format("tensor {}: expected shape {}, got {}", quote_name(spec.name),
                                        expected.to_string(), spec.shape.to_string()));
  }
  if (!is_float_weight(spec.dtype)) {
    return invalid_argument(fmt::format("tensor {}: expected dtype float32, bfloat16 or float16, got {}",
                                        quote_name(spec.name), torch_name(spec.dtype)));
  }
  const int64_t most = std::min<int64_t>(expected.num_elements(), INT32_MAX);
  if (spec.num_updates && (*spec.num_updates < 0 || *spec.num_updates > most)) {
    return invalid_argument(
        fmt::format("tensor {}: expected 0 to {} updates, got {}", quote_name(spec.name), most, *spec.num_updates));
  }
  return {};
}

Status WeightStaging::check(std::span<const TensorSpec> specs) const {
  std::set<std::string_view> names;
  for (const TensorSpec& spec : specs) {
    UNSPOOL_TRY(check(spec));
    if (!names.insert(spec.name).second)
      return invalid_argument(fmt::format("tensor {} is named twice", quote_name(spec.name)));
  }
  return {};
}

void WeightStaging::begin(uint64_t session) {
  std::lock_guard lock(mutex_);
  UNSPOOL_CHECK(open_ == 0 && session != 0, "session {} begins while {} is open", session, open_.load());
  open_ = session;
}

std::vector<std::string> WeightStaging::missing(bool whole) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (size_t i = 0; i < staged_.size(); ++i) {
    const Brought brought = staged_[i].brought;
    if (brought == Brought::kNothing || (whole && brought == Brought::kElements)) names.push_back(parameter(i).name);
  }
  return names;
}

Matrix& WeightStaging::outcome(size_t index) {
  return !in_place() && staged_[index].shadowed ? *shadow(index).copy : *parameter(index).matrix;
}

// Whether the elements that came for a head are those of its source after the commit.
bool WeightStaging::agrees(const Head& head) {
  const SparseValues& queued = staged_[head.source].queued;
  const Parameter& source = parameter(head.source);
  const std::byte* served = outcome(head.source).storage().data();
  const auto size = static_cast<size_t>(dtype_size(weights_.dtype()));
  int64_t base = 0;
  const auto positions = head.elements.positions(source, &base);
  for (size_t i = 0, q = 0; i < positions.size(); ++i) {
    const int32_t index = head.elements.indices[i];
    while (q < queued.size() && queued.indices[q] < index) ++q;
    const bool is_queued = q < queued.size() && queued.indices[q] == index;
    const std::byte* expected =
        is_queued ? queued.value(q).data() : served + (static_cast<size_t>(base) + positions[i]) * size;
    if (std::memcmp(head.elements.value(i).data(), expected, size) != 0) return false;
  }
  return true;
}

Status WeightStaging::check_head(const Tie& tie, Head& head) {
  if (head.digest && !head.source_digest)
    head.source_digest = backend_.digest(outcome(head.source), 0, parameter(head.source).shape[0], {});
  if ((!head.digest || *head.digest == *head.source_digest) && agrees(head)) return {};
  return invalid_argument(
      fmt::format("tensor {}: expected the bits of {}, to which it is tied, got others; send both "
                  "alike, or {} alone",
                  quote_name(tie.name), quote_name(tie.source), quote_name(tie.source)));
}

Status WeightStaging::commit() {
  std::lock_guard lock(mutex_);
  UNSPOOL_CHECK(open_ != 0, "a commit without a session");
  if (busy_) return Error{ErrorKind::kConflict, "Tensors of this weight update are still on their way.", {}};
  for (size_t i = 0; i < heads_.size(); ++i) UNSPOOL_TRY(check_head(weights_.ties()[i], heads_[i]));

  std::vector<ElementWrites> writes;
  for (size_t i = 0; i < staged_.size(); ++i) {
    const Parameter& p = parameter(i);
    if (lacks_rows(i)) backend_.copy_rows(*shadow(i).copy, *p.matrix, p.first_row, p.shape[0]);
    if (!staged_[i].queued.empty()) writes.push_back(queued_writes(i, *p.matrix));
    if (p.matrix == nullptr && staged_[i].shadowed)
      std::copy(staged_[i].vector.begin(), staged_[i].vector.end(), p.vector.begin());
  }
  for (Shadow& each : shadows_)
    if (each.touched) each.served->swap_storage(*each.copy);
  backend_.write_elements(writes);
  end_session();
  return {};
}

bool WeightStaging::drop() {
  open_ = 0;  // before the lock: a put would otherwise take it again for its next piece
  std::lock_guard lock(mutex_);
  const bool written = written_;
  end_session();
  return written;
}

void WeightStaging::end_session() {
  open_ = 0;
  written_ = false;
  num_queued_ = 0;
  for (Shadow& each : shadows_) each.touched = false;
  for (Staged& each : staged_) each = {};
  for (Head& each : heads_) each = {.source = each.source, .digest = {}, .source_digest = {}, .elements = {}};
  turn_ended_.notify_all();
}

void WeightStaging::release() {
  std::lock_guard lock(mutex_);
  UNSPOOL_CHECK(open_ == 0, "the second copy is released within session {}", open_.load());
  for (Shadow& each : shadows_) each = {.served = each.served};
}

size_t WeightStaging::resident_bytes() const {
  std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const Shadow& each : shadows_) total += each.resident ? each.copy->size_bytes() : 0;
  return total;
}

}  // namespace unspool
