#include "layers/experts_mlp.h"

#include <fmt/format.h>

#include <algorithm>

namespace unspool {

Result<std::unique_ptr<Mlp>> ExpertsMlp::add(WeightSet& weights, const std::string& prefix,
                                             const ExpertsMlpShape& shape) {
  std::unique_ptr<ExpertsMlp> mlp(new ExpertsMlp(shape));
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns) {
    return Linear::add(weights, {{prefix + name, rows}}, columns, /*bias=*/false);
  };
  UNSPOOL_ASSIGN(mlp->router_, linear("gate", shape.num_experts, shape.hidden));
  std::vector<size_t> gates_and_ups, downs;
  for (int64_t e = 0; e < shape.num_experts; ++e) {
    const std::string name = fmt::format("experts.{}.", e);
    const size_t first = weights.parameters().size();
    gates_and_ups.insert(gates_and_ups.end(), {first, first + 1});
    downs.push_back(first + 2);
    UNSPOOL_ASSIGN(const Linear gate, linear(name + "gate_proj", shape.inner, shape.hidden));
    UNSPOOL_ASSIGN(const Linear up, linear(name + "up_proj", shape.inner, shape.hidden));
    UNSPOOL_ASSIGN(const Linear down, linear(name + "down_proj", shape.hidden, shape.inner));
    mlp->experts_.push_back({&gate.matrix(), &up.matrix(), &down.matrix()});
  }
  weights.fuse(prefix + "experts.gate_up_proj", Shape{shape.num_experts, 2 * shape.inner, shape.hidden},
               std::move(gates_and_ups));
  weights.fuse(prefix + "experts.down_proj", Shape{shape.num_experts, shape.hidden, shape.inner}, std::move(downs));
  if (shape.shared_inner > 0) {
    UNSPOOL_ASSIGN(const Linear gate, linear("shared_expert.gate_proj", shape.shared_inner, shape.hidden));
    UNSPOOL_ASSIGN(const Linear up, linear("shared_expert.up_proj", shape.shared_inner, shape.hidden));
    UNSPOOL_ASSIGN(const Linear down, linear("shared_expert.down_proj", shape.hidden, shape.shared_inner));
    mlp->shared_.emplace(gate, up, down, Activation::kSilu);
    UNSPOOL_ASSIGN(mlp->shared_gate_, linear("shared_expert_gate", 1, shape.hidden));
  }
  return std::unique_ptr<Mlp>(std::move(mlp));
}

Status ExpertsMlp::reserve(MlpScratch& scratch) const {
  if (shared_) UNSPOOL_TRY(shared_->reserve(scratch));
  return scratch.reserve_routing(
      {.max_rows = scratch.max_rows(), .top_k = shape_.top_k, .hidden = shape_.hidden, .inner = shape_.inner},
      shape_.num_experts);
}

void ExpertsMlp::route(MlpScratch& scratch) const {
  Backend& backend = scratch.backend();
  RoutingScratch& routing = scratch.routing();
  auto* logits = routing.logits.as<float>();
  router_.forward(backend, *routing.unrounded, logits, shape_.num_experts);
  backend.route(logits, routing.unrounded->rows(), shape_.num_experts, shape_.normalize, routing.routes);
}

void ExpertsMlp::forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const {
  Backend& backend = scratch.backend();
  RoutingScratch& routing = scratch.routing();
  if (!accumulate) std::fill_n(y, x.rows() * shape_.hidden, 0.0f);
  if (shared_) {
    shared_->forward(x, scratch, routing.shared.as<float>(), /*accumulate=*/false);
    shared_gate_.forward(backend, *routing.unrounded, routing.shared_gate.as<float>(), 1);
  }
  backend.experts({.x = &x,
                   .routes = &routing.routes,
                   .experts = experts_,
                   .shared = shared_ ? routing.shared.as<float>() : nullptr,
                   .shared_gate = shared_ ? routing.shared_gate.as<float>() : nullptr},
                  *routing.experts, y);
}

}  // namespace unspool
