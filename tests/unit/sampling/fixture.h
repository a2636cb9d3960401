// A sampler over the plain kernels, and short ways to ask it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/reference/vocab_reference.h"
#include "sampling/sampler.h"

namespace unspool {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Draw {
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  uint64_t seed = 1;
  int64_t position = 0;
  std::vector<uint32_t> allowed = {};
};

inline SampleResult sample_row(std::span<const float> logits, const SamplingParams& params, const Draw& draw = {}) {
  Sampler sampler(reference_vocab_kernels(), static_cast<int>(logits.size()));
  sampler.reserve(1);
  return sampler.sample({logits, &params, draw.prompt, draw.output, draw.seed, draw.position, {}, draw.allowed}, 0);
}

// Every entry's value by id, as `mode` shows it.
inline std::vector<float> values_of(std::span<const float> logits, SamplingParams params, LogprobsMode mode,
                                    const Draw& draw = {}) {
  params.logprobs = -1;
  params.logprobs_mode = mode;
  const SampleResult result = sample_row(logits, params, draw);
  EXPECT_TRUE(result.finite);
  EXPECT_EQ(result.logprobs.size(), logits.size());
  std::vector<float> values(logits.size(), std::numeric_limits<float>::quiet_NaN());
  for (const TokenLogprob& entry : result.logprobs) values[entry.token_id] = entry.logprob;
  return values;
}

inline SamplingParams greedy_params() {
  SamplingParams params;
  params.temperature = 0.0f;
  return params;
}

}  // namespace unspool
