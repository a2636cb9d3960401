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

}  // namespace unspool
