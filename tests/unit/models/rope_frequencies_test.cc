#include "models/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>

namespace unspool {
namespace {

TEST(RopeFrequenciesTest, DefaultIsRoundedAsTrainersRoundIt) {
  for (const double theta : {10000.0, 500000.0, 1e6})
    for (const int64_t dim : {8, 20, 64, 128}) {
      const auto frequencies = inverse_frequencies({.theta = theta}, dim);
      ASSERT_EQ(static_cast<int64_t>(frequencies.size()), dim / 2);
      EXPECT_EQ(frequencies[0], 1.0f);
      for (int64_t i = 0; i < dim / 2; ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
        const auto power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
        EXPECT_EQ(frequencies[static_cast<size_t>(i)], 1.0f / power) << theta << ", " << i << " of " << dim;
      }
    }
}

// Llama 3.2: wavelengths above 8192 are stretched 32 times, those below 2048 kept, and between them blended.
TEST(RopeFrequenciesTest, Llama3ScalesByWavelength) {
  const RopeConfig scaled{.type = RopeType::kLlama3,
                          .theta = 500000.0,
                          .factor = 32.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .original_max_position_embeddings = 8192};
  const auto plain = inverse_frequencies({.theta = 500000.0}, 64), frequencies = inverse_frequencies(scaled, 64);
  int kept = 0, stretched = 0, blended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const double wavelength = 2.0 * M_PI / static_cast<double>(plain[i]);
    if (wavelength < 2048.0) {
      EXPECT_EQ(frequencies[i], plain[i]) << i;
      ++kept;
    } else if (wavelength > 8192.0) {
      EXPECT_EQ(frequencies[i], plain[i] / 32.0f) << i;
      ++stretched;
    } else {
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      const double expected =
          (1.0 - smooth) * static_cast<double>(plain[i]) / 32.0 + smooth * static_cast<double>(plain[i]);
      EXPECT_NEAR(static_cast<double>(frequencies[i]) / expected, 1.0, 1e-6) << i;
      ++blended;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

}  // namespace
}  // namespace unspool
