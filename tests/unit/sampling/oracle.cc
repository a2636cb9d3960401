#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace unspool::oracle {
namespace {

constexpr double kAmbiguous = 1e-6;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

double exp_from_max(const Row& row, int32_t id) {
  return std::exp(static_cast<double>(row.scaled[id]) - row.scaled[row.order[0]]);
}

void keep_prefix(Row& row, size_t length) {
  for (size_t i = length; i < row.order.size(); ++i) row.kept[row.order[i]] = false;
}

void apply_min_p(Row& row, double min_p) {
  for (size_t i = 0; i < row.order.size(); ++i) {
    const double p = exp_from_max(row, row.order[i]);
    if (min_p < 1.0 && std::abs(p / min_p - 1.0) < 1e-5) row.ambiguous = true;
    if (p < min_p) return keep_prefix(row, i);
  }
}

void apply_top_p(Row& row, double top_p) {
  double total = 0.0;
  for (const int32_t id : row.order) total += row.kept[id] ? exp_from_max(row, id) : 0.0;
  double sum = 0.0;
  for (size_t i = 0; i < row.order.size(); ++i) {
    sum += row.kept[row.order[i]] ? exp_from_max(row, row.order[i]) : 0.0;
    if (std::abs(sum / total - top_p) < kAmbiguous) row.ambiguous = true;
    if (sum >= top_p * total) return keep_prefix(row, i + 1);
  }
}

}  // namespace

Row truncate(std::span<const float> logits, const SamplingParams& params) {
  Row row;
  for (const float x : logits) row.scaled.push_back(params.greedy() ? x : x / params.temperature);
  row.order.resize(logits.size());
  std::iota(row.order.begin(), row.order.end(), 0);
  std::stable_sort(row.order.begin(), row.order.end(),
                   [&](int32_t a, int32_t b) { return row.scaled[a] > row.scaled[b]; });
  row.kept.assign(logits.size(), true);
  if (!params.greedy()) {
    if (params.min_p > 0.0f) apply_min_p(row, params.min_p);
    if (params.top_k > 0 && params.top_k < static_cast<int>(logits.size())) keep_prefix(row, params.top_k);
    if (params.top_p < 1.0f) apply_top_p(row, params.top_p);
  }
  double all = 0.0, kept = 0.0;
  for (const int32_t id : row.order) {
    all += exp_from_max(row, id);
    if (row.kept[id]) kept += exp_from_max(row, id);
  }
  row.kept_mass = kept / all;
  for (int32_t id = 0; id < static_cast<int32_t>(logits.size()); ++id) {
    row.probabilities.push_back(row.kept[id] ? exp_from_max(row, id) / kept : 0.0);
  }
  return row;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

int32_t rank(std::span<const float> logits, int32_t id) {
  return static_cast<int32_t>(std::count_if(logits.begin(), logits.end(), [&](float x) { return x >= logits[id]; }));
}

int32_t draw(const Row& row, double uniform) {
  double sum = 0.0;
  for (int32_t id = 0; id < static_cast<int32_t>(row.probabilities.size()); ++id) {
    sum += row.probabilities[id];
    if (row.probabilities[id] > 0.0 && std::abs(sum - uniform) < kAmbiguous) return -1;
    if (sum > uniform) return id;
  }
  return -1;
}

std::vector<float> random_logits(std::mt19937_64& random, int vocab_size) {
  const auto spread = std::uniform_real_distribution<float>(0.0f, 8.0f)(random);
  const auto offset = std::uniform_real_distribution<float>(-30.0f, 30.0f)(random);
  const auto shape = random() % 6;
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> logits(vocab_size);
  for (float& x : logits) {
    x = offset + spread * normal(random);
    if (shape == 1) x = std::round(x);                            // many ties
    if (shape == 2) x = offset;                                   // all equal
    if (shape == 3 && random() % 3 == 0) x = -kInfinity;          // masked
    if (shape == 4 && random() % 100 != 0) x = offset - 60.0f;    // few that matter
    if (shape == 5) x = random() % 2 == 0 ? offset : -kInfinity;  // ties and nothing else
  }
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return x == -kInfinity; })) {
    logits[random() % vocab_size] = offset;
  }
  return logits;
}

SamplingParams random_truncation(std::mt19937_64& random, int vocab_size) {
  SamplingParams params;
  std::uniform_real_distribution<float> unit(0.0f, 1.0f);
  if (random() % 2 == 0) params.temperature = 0.3f + 1.5f * unit(random);
  if (random() % 3 == 0) params.min_p = std::pow(10.0f, -5.0f * unit(random));
  if (random() % 2 == 0) params.top_k = static_cast<int>(random() % (vocab_size + 2));
  if (random() % 2 == 0) params.top_p = random() % 4 == 0 ? 1.0f - 1e-4f * unit(random) : 0.01f + 0.98f * unit(random);
  return params;
}

}  // namespace unspool::oracle
