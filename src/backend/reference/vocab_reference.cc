#include "backend/reference/vocab_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/math.h"

namespace unspool {
namespace {

bool no_nan_or_positive_inf(const float* x, int64_t n) {
  return std::all_of(x, x + n, [](float v) { return v < std::numeric_limits<float>::infinity(); });
}

void block_stats(const float* x, int64_t n, BlockStat* stats) {
  for (int64_t start = 0; start < n; start += kVocabBlock, ++stats) {
    const int64_t end = std::min<int64_t>(n, start + kVocabBlock);
    stats->max = *std::max_element(x + start, x + end);
    if (!no_nan_or_positive_inf(x + start, end - start)) {
      stats->sum = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    float lanes[16] = {};
    if (stats->max != -std::numeric_limits<float>::infinity())
      for (int64_t i = start; i < end; ++i) lanes[i % 16] += contract_exp(x[i] - stats->max);
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    stats->sum = lanes[0];
  }
}

int64_t count_at_least(const float* x, int64_t n, float value) {
  return std::count_if(x, x + n, [value](float v) { return v >= value; });
}

int64_t argmax(const float* x, int64_t n) {
  return std::max_element(x, x + n) - x;
}

void exp_shifted(const float* x, int64_t n, float shift, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = contract_exp(x[i] - shift);
}

void scale(const float* x, int64_t n, float factor, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

void divide(const float* x, int64_t n, float divisor, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] / divisor;
}

int64_t select_at_least(const float* x, int64_t n, float threshold, int32_t* indices, int64_t capacity) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i)
    if (x[i] >= threshold) {
      if (count < capacity) indices[count] = static_cast<int32_t>(i);
      ++count;
    }
  return count;
}

}  // namespace

const VocabKernels& reference_vocab_kernels() {
  static constexpr VocabKernels kKernels = {.block_stats = block_stats,
                                            .count_at_least = count_at_least,
                                            .argmax = argmax,
                                            .exp_shifted = exp_shifted,
                                            .scale = scale,
                                            .divide = divide,
                                            .select_at_least = select_at_least,
                                            .no_nan_or_positive_inf = no_nan_or_positive_inf};
  return kKernels;
}

}  // namespace unspool
