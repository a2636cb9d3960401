// Inverse transform sampling over absolute blocks of the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/truncation.h"
#include "sampling/vocab_row.h"

namespace unspool {

class Drawer {
 public:
  explicit Drawer(const VocabKernels& kernels) : kernels_(kernels) {}

  // The token at `uniform` in [0, 1) of the kept entries' distribution, ids ascending. -1 where nothing has mass.
  // The uniform first picks a block by the blocks' masses; how far it lies into that block picks the entry. So no
  // V-wide sum is made, and an entry far below the rounding of the total still has its own share of the uniforms.
  int32_t draw(const VocabRow& row, const Truncation& truncation, double uniform);

 private:
  const VocabKernels& kernels_;
  std::vector<float> exps_;
  std::vector<double> weights_;
};

}  // namespace unspool
