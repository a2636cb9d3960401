#include "layers/mlp.h"

#include <algorithm>

#include "base/check.h"

namespace unspool {

Status MlpScratch::reserve_input(int64_t columns) {
  for (const auto& input : inputs_)
    if (input->columns() == columns) return {};
  UNSPOOL_ASSIGN(auto input, backend_->make_product_input(max_rows_, columns, weights_, precision_));
  inputs_.push_back(std::move(input));
  return {};
}

ProductInput& MlpScratch::input(int64_t columns) const {
  const auto found =
      std::find_if(inputs_.begin(), inputs_.end(), [&](const auto& input) { return input->columns() == columns; });
  UNSPOOL_CHECK(found != inputs_.end(), "no input of {} columns was reserved", columns);
  return **found;
}

Status MlpScratch::reserve_routing(const ExpertShape& shape, int64_t num_experts) {
  if (routing_ != nullptr) return {};
  auto routing = std::make_unique<RoutingScratch>();
  const auto floats = [&](int64_t width) {
    return Buffer::allocate(static_cast<size_t>(max_rows_ * width) * sizeof(float));
  };
  UNSPOOL_ASSIGN(routing->unrounded,
                 backend_->make_product_input(max_rows_, shape.hidden, DType::kFloat32, MatmulPrecision::kBf16));
  UNSPOOL_ASSIGN(routing->logits, floats(num_experts));
  UNSPOOL_ASSIGN(routing->shared, floats(shape.hidden));
  UNSPOOL_ASSIGN(routing->shared_gate, floats(1));
  UNSPOOL_ASSIGN(routing->experts, backend_->make_expert_scratch(shape, weights_, precision_));
  routing->routes.top_k = shape.top_k;
  routing_ = std::move(routing);
  return {};
}

RoutingScratch& MlpScratch::routing() const {
  UNSPOOL_CHECK(routing_ != nullptr, "no experts were reserved");
  return *routing_;
}

void MlpScratch::release() {
  inputs_.clear();
  routing_.reset();
}

}  // namespace unspool
