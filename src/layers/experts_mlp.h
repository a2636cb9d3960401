// A mixture of experts in the place of an MLP: a router picks a few of many gated MLPs for every row, and perhaps one
// more takes every row (docs/numerics.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/gated_mlp.h"
#include "layers/linear.h"
#include "layers/mlp.h"

namespace unspool {

struct ExpertsMlpShape {
  int64_t num_experts = 0;
  int64_t top_k = 0;
  int64_t hidden = 0;
  int64_t inner = 0;         // of an expert
  int64_t shared_inner = 0;  // of the one that takes every row; 0: there is none
  bool normalize = false;    // the chosen ones' probabilities sum to 1
};

class ExpertsMlp final : public Mlp {
 public:
  // PREFIXgate, PREFIXexperts.N.{gate,up,down}_proj, PREFIXshared_expert.{gate,up,down}_proj, PREFIXshared_expert_gate.
  // The experts may be fused, as PREFIXexperts.gate_up_proj and PREFIXexperts.down_proj.
  static Result<std::unique_ptr<Mlp>> add(WeightSet& weights, const std::string& prefix, const ExpertsMlpShape& shape);

  Status reserve(MlpScratch& scratch) const override;
  bool routes() const override { return true; }
  void route(MlpScratch& scratch) const override;
  void forward(const ProductInput& x, MlpScratch& scratch, float* y, bool accumulate) const override;

 private:
  explicit ExpertsMlp(const ExpertsMlpShape& shape) : shape_(shape) {}

  ExpertsMlpShape shape_;
  Linear router_, shared_gate_;
  std::vector<ExpertWeights> experts_;
  std::optional<GatedMlp> shared_;
};

}  // namespace unspool
