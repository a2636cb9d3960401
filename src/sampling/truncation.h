// min_p, top_k and top_p: what they keep of a row, and the block stats of what is kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/sampling_params.h"
#include "sampling/candidates.h"
#include "sampling/prefix_search.h"
#include "sampling/vocab_row.h"

namespace unspool {

// Copies block `index` with what the cut removes set to -inf. `out` has room for a block. Returns the entries.
int64_t copy_kept(const VocabRow& row, const Cut& cut, int64_t index, float* out);

// A row as truncation left it.
struct Truncation {
  Cut cut;
  std::span<const BlockStat> blocks;  // of the kept entries; the row's own where everything is kept
};

class Truncator {
 public:
  explicit Truncator(const VocabKernels& kernels) : kernels_(kernels), selector_(kernels), search_(kernels) {}

  // In the order min_p, top_k, top_p; `row` is the row after temperature and has a finite maximum. At least one
  // candidate is kept. Valid until the next call.
  Truncation truncate(const VocabRow& row, const SamplingParams& params);

 private:
  Cut top_k_cut(const VocabRow& row, int64_t k);
  // Of what `outer` keeps, whose block stats are `blocks`: the smallest prefix with at least `top_p` of its mass.
  Cut top_p_cut(const VocabRow& row, const Cut& outer, std::span<const BlockStat> blocks, float top_p);
  // The block stats of what the cut keeps, with the bits of block_stats over the masked row.
  std::span<const BlockStat> kept_blocks(const VocabRow& row, const Cut& cut);

  const VocabKernels& kernels_;
  CandidateSelector selector_;
  PrefixSearch search_;
  std::vector<BlockStat> kept_blocks_;
};

}  // namespace unspool
