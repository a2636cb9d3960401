// The order of candidates, value descending then id ascending, and the first of them without sorting the vocabulary.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sampling/vocab_row.h"

namespace unspool {

struct Candidate {
  float value;
  int32_t id;
};

inline bool before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// What truncation keeps: a prefix of the candidates that ends with `last`. min_p, top_k and top_p all keep prefixes of
// the same order, so one pair says what is left, and the tighter of two cuts is both of them.
struct Cut {
  Candidate last = {-std::numeric_limits<float>::infinity(), std::numeric_limits<int32_t>::max()};

  bool keeps(float value, int32_t id) const { return !before(last, {value, id}); }
  bool keeps_all() const { return !before(last, Cut{}.last); }
};

inline Cut tighter(const Cut& a, const Cut& b) {
  return before(a.last, b.last) ? a : b;
}

// Lower ends of slabs of values below a row's maximum, for gathering candidates until there are enough. The first are
// narrow since a language model's mass lies within a few nats of the best token; the last slab takes all that is
// finite.
class Slabs {
 public:
  // With at least `expected` entries needed, slabs that cannot hold that many are not worth a pass of their own.
  explicit Slabs(float max, uint64_t expected = 1) : max_(max), step_(expected > kFew ? kWideStep : 0) {}
  bool next();                          // false after the last
  float low() const { return low_; }    // inclusive
  float high() const { return high_; }  // exclusive

 private:
  static constexpr uint64_t kFew = 256;
  static constexpr int kWideStep = 5;  // 16 nats

  float max_;
  int step_;
  float low_ = std::numeric_limits<float>::infinity();
  float high_ = std::numeric_limits<float>::infinity();
};

// Appends the candidates that `cut` keeps with low <= value < high, by ascending id. Blocks whose maximum is below
// `low` are not read.
void gather(const VocabKernels& kernels, const VocabRow& row, const Cut& cut, float low, float high,
            std::vector<Candidate>& out);

class CandidateSelector {
 public:
  explicit CandidateSelector(const VocabKernels& kernels) : kernels_(kernels) {}

  // The first `count` candidates (>= 1) that are not -inf, in no order; fewer where the row has fewer. The result stays
  // valid, and may be reordered, until the next call.
  std::vector<Candidate>& first(const VocabRow& row, int64_t count);

 private:
  // A value that at least `count` entries reach, near the count-th largest; -inf where block maxima cannot tell.
  float lower_bound_of(const VocabRow& row, int64_t count);

  const VocabKernels& kernels_;
  std::vector<float> maxima_;
  std::vector<Candidate> selected_;
};

}  // namespace unspool
