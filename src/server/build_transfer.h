// Weight transfer as the flags ask for it.
#pragma once

#include <memory>

#include "base/result.h"
#include "server/serving_context.h"
#include "server/weight_transfer.h"

namespace unspool {

// Before a model is loaded: whether the backend can work here.
Status check_transfer(const ControlOptions& options);

// Null where none is configured, or no development routes lead to it. The context outlives it.
std::unique_ptr<WeightTransfer> build_transfer(ServingContext& context);

}  // namespace unspool
