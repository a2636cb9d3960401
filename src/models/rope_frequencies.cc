#include "models/rope_frequencies.h"

#include "backend/math.h"

namespace unspool {
namespace {

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

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<float> frequencies;
  const double log_theta = contract_log(rope.theta);
  for (int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const auto power = static_cast<float>(contract_exp(log_theta * static_cast<double>(exponent)));
    const float frequency = 1.0f / power;
    frequencies.push_back(rope.type == RopeType::kLlama3 ? scale_llama3(rope, frequency) : frequency);
  }
  return frequencies;
}

}  // namespace unspool
