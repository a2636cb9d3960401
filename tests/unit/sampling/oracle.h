// What the sampler should do, written slowly and in double: full sorts, full sums, no blocks.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "request/sampling_params.h"

namespace unspool::oracle {

// A row after temperature and truncation.
struct Row {
  std::vector<float> scaled;          // logits / temperature, rounded once as the sampler does
  std::vector<int32_t> order;         // all ids, value descending, then id ascending
  std::vector<bool> kept;             // by id
  std::vector<double> probabilities;  // by id, of what is kept
  double kept_mass = 1.0;             // under the distribution after temperature
  bool ambiguous = false;             // a cut lies so near a boundary that float32 may take either side
};

Row truncate(std::span<const float> logits, const SamplingParams& params);

// The log of the sum of all exponentials: an entry's log-prob is its logit less this.
double log_sum_exp(std::span<const float> logits);

// Entries with at least the value of `id`.
int32_t rank(std::span<const float> logits, int32_t id);

// Inverse transform over ids. -1 where the uniform is within 1e-6 of a boundary.
int32_t draw(const Row& row, double uniform);

// Rows as varied as a model's and worse: smooth, peaked, flat, with ties, duplicates and -inf. Never all -inf.
std::vector<float> random_logits(std::mt19937_64& random, int vocab_size);

// Any mix of temperature, min_p, top_k and top_p; sometimes none.
SamplingParams random_truncation(std::mt19937_64& random, int vocab_size);

}  // namespace unspool::oracle
