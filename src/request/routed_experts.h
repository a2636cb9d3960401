// Which experts the tokens of a sample went to, as trainers replay them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unspool {

// Of one token: ids [layers, top_k], those of an expert's layer in the order of their rank; zeros in a layer without
// experts.
struct RoutedExpertsShape {
  int64_t layers = 0;  // all of the model's; 0 where nothing is kept
  int64_t top_k = 0;
  int64_t id_bytes = 0;  // 1 up to 256 experts, else 2, little-endian

  size_t row_bytes() const { return static_cast<size_t>(layers * top_k * id_bytes); }
};

struct RoutedExperts {
  RoutedExpertsShape shape;
  std::vector<std::byte> ids;  // [rows(), layers, top_k]

  int64_t rows() const { return static_cast<int64_t>(ids.size() / shape.row_bytes()); }
};

}  // namespace unspool
