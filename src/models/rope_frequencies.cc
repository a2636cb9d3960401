#include "models/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/math.h"

namespace unspool {
namespace {

// theta^(2i / rotary_dim), as float32 has it.
float wavelength_power(double log_theta, int64_t i, int64_t rotary_dim) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary_dim);
  return static_cast<float>(contract_exp(log_theta * static_cast<double>(exponent)));
}

std::vector<float> wavelength_powers(double theta, int64_t rotary_dim) {
  const double log_theta = contract_log(theta);
  std::vector<float> powers;
  for (int64_t i = 0; 2 * i < rotary_dim; ++i) powers.push_back(wavelength_power(log_theta, i, rotary_dim));
  return powers;
}

// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
float scale_llama3(const RopeConfig& rope, float frequency) {
  const auto context = static_cast<double>(rope.original_max_position_embeddings);
  const auto low_wavelength = static_cast<float>(context / rope.low_freq_factor);
  const auto high_wavelength = static_cast<float>(context / rope.high_freq_factor);
  const float wavelength = 6.283185307179586f / frequency;
  const auto factor = static_cast<float>(rope.factor);
  if (wavelength > low_wavelength) return frequency / factor;
  if (wavelength < high_wavelength) return frequency;
  const float smooth = (static_cast<float>(context) / wavelength - static_cast<float>(rope.low_freq_factor)) /
                       static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

// Past the border theta grows with the length, in float32 as there, where the length is a tensor.
double dynamic_theta(const RopeConfig& rope, int64_t length) {
  if (length <= rope.max_position_embeddings) return rope.theta;
  const float stretched = static_cast<float>(rope.factor) * static_cast<float>(length);
  const float scale =
      stretched / static_cast<float>(rope.max_position_embeddings) - static_cast<float>(rope.factor - 1.0);
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto exponent = static_cast<float>(dim / (dim - 2.0));
  const auto power =
      static_cast<float>(contract_exp(contract_log(static_cast<double>(scale)) * static_cast<double>(exponent)));
  // Absurd factors overflow; the largest float is as good as infinity, which has no logarithm here.
  return static_cast<double>(std::min(static_cast<float>(rope.theta) * power, std::numeric_limits<float>::max()));
}

// The dimension whose wave turns `rotations` times over the original context.
double correction_dim(const RopeConfig& rope, double rotations) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(rope.rotary_dim) * contract_log(context / (rotations * 2.0 * 3.141592653589793)) /
         (2.0 * contract_log(rope.theta));
}

// Frequencies of dimensions below the ramp are kept, above it divided by `factor`, on it blended.
void scale_yarn(const RopeConfig& rope, const std::vector<float>& powers, std::vector<float>& frequencies) {
  double low = correction_dim(rope, rope.beta_fast), high = correction_dim(rope, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  const auto start = static_cast<float>(low), width = static_cast<float>(high - low);
  const auto factor = static_cast<float>(rope.factor);
  for (size_t i = 0; i < powers.size(); ++i) {
    const float kept = 1.0f / powers[i], stretched = 1.0f / (factor * powers[i]);
    const float ramp = std::clamp((static_cast<float>(i) - start) / width, 0.0f, 1.0f);
    const float keep = 1.0f - ramp;
    frequencies[i] = stretched * (1.0f - keep) + kept * keep;
  }
}

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& rope, int64_t max_model_len) {
  const double theta = rope.type == RopeType::kDynamic ? dynamic_theta(rope, max_model_len) : rope.theta;
  const std::vector<float> powers = wavelength_powers(theta, rope.rotary_dim);
  std::vector<float> frequencies = powers;
  for (float& frequency : frequencies) frequency = 1.0f / frequency;
  switch (rope.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic:
      break;
    case RopeType::kLinear:
      for (float& frequency : frequencies) frequency /= static_cast<float>(rope.factor);
      break;
    case RopeType::kLlama3:
      for (float& frequency : frequencies) frequency = scale_llama3(rope, frequency);
      break;
    case RopeType::kYarn:
      scale_yarn(rope, powers, frequencies);
      break;
    case RopeType::kLongRope: {
      const auto& factors =
          max_model_len > rope.original_max_position_embeddings ? rope.long_factor : rope.short_factor;
      for (size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = 1.0f / (static_cast<float>(factors[i]) * powers[i]);
      break;
    }
  }
  return frequencies;
}

}  // namespace unspool
