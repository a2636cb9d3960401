// The log-probs of one position: the token itself, and the best or the named ones beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/outputs.h"
#include "sampling/candidates.h"
#include "sampling/vocab_row.h"

namespace unspool {

// A row as one logprobs mode shows it: what the cut removed counts as -inf.
struct ScoredRow {
  const VocabRow* row = nullptr;
  Cut cut;
  LogNormalizer normalizer;  // of the kept entries
  bool logits = false;       // values as they are, not log-probs

  // The row's value of a token, -inf where it is cut away.
  float value(int32_t id) const;
  float score(float value) const { return logits ? value : normalizer.logprob(value); }
};

class Ranker {
 public:
  explicit Ranker(const VocabKernels& kernels) : kernels_(kernels), selector_(kernels) {}

  // `token_id`, then the first `count` candidates (-1: all) but the token itself.
  PositionLogprobs with_best(const ScoredRow& scored, int32_t token_id, int count);
  // `token_id`, then `ids` as they come, each once; ids outside of the vocabulary are left out.
  PositionLogprobs with_ids(const ScoredRow& scored, int32_t token_id, std::span<const int32_t> ids);

 private:
  // Entries whose value is at least that of `id`.
  int32_t rank(const ScoredRow& scored, int32_t id) const;
  TokenLogprob describe(const ScoredRow& scored, int32_t id) const;
  // The first `count` candidates of the row as scored, in order; -inf ones come last, by id.
  const std::vector<Candidate>& best(const ScoredRow& scored, int64_t count);

  const VocabKernels& kernels_;
  CandidateSelector selector_;
};

}  // namespace unspool
