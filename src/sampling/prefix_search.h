// Where the candidates, taken in order, first reach a weight: top_p by mass, a wide top_k by count.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sampling/candidates.h"
#include "sampling/vocab_row.h"

namespace unspool {

// Unit of mass: exp(x - max) is at most 1, so 2^20 entries stay below 2^64, while cutting off what is below 2^-44 loses
// less than V * 2^-44, 1e-8 for V = 152k. Integers add up to the same sum in any order, so that a cut does not depend
// on how its candidates were found.
inline constexpr double kMassUnit = 0x1p44;

enum class Weigh { kCount, kMass };  // 1 an entry, or exp(x - max) in units of 2^-44

class PrefixSearch {
 public:
  explicit PrefixSearch(const VocabKernels& kernels) : kernels_(kernels) {}

  // The smallest prefix of what `outer` keeps whose weight is at least `target` (> 0); `outer` itself where all of it
  // weighs less. Goes down the row slab by slab, sorting each slab's weight into bins by value; only the bin in which
  // the target is reached is ever put in order. So a nucleus as wide as the vocabulary costs a few passes and no sort.
  Cut reach(const VocabRow& row, const Cut& outer, Weigh weigh, uint64_t target);

 private:
  static constexpr int kBins = 256;

  struct Weighted {
    Candidate candidate;
    uint64_t weight;
  };
  // Calls visit(candidate, weight) for what `outer` keeps with low <= value < high, ids ascending.
  template <class Visit>
  void for_each(const VocabRow& row, const Cut& outer, float low, float high, Weigh weigh, Visit visit) const;
  // The last candidate of the smallest prefix of weighted_ that reaches the target, as all of it does.
  Candidate last_to_reach(uint64_t target);

  const VocabKernels& kernels_;
  std::array<uint64_t, kBins> bins_;
  std::vector<Weighted> weighted_;
};

}  // namespace unspool
