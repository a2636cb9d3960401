// An RMS norm's weight and constants; without a weight there is no norm.
#pragma once

#include <span>

namespace unspool {

struct RmsNorm {
  std::span<const float> weight;
  float eps = 0.0f;

  bool exists() const { return !weight.empty(); }
};

}  // namespace unspool
