// Comparison by bits, values of every kind, and hashes: what the numerics tests share.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

namespace unspool {

inline uint32_t bits_of(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline float from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// NaN equals NaN: which one comes out of inf - inf is nobody's business.
inline bool equal_bits(float a, float b) {
  return bits_of(a) == bits_of(b) || (a != a && b != b);
}
inline bool equal_bits(uint16_t a, uint16_t b) {
  return a == b;
}

template <class A, class B>
testing::AssertionResult same_bits(const A& expected, const B& actual) {
  if (std::size(expected) != std::size(actual))
    return testing::AssertionFailure() << std::size(expected) << " values expected, got " << std::size(actual);
  size_t differing = 0, first = 0;
  for (size_t i = 0; i < std::size(expected); ++i)
    if (!equal_bits(expected[i], actual[i]) && differing++ == 0) first = i;
  if (differing == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << differing << " of " << std::size(expected) << " differ, first at " << first
                                     << ": expected " << std::hexfloat << expected[first] << ", got " << actual[first];
}

// UNSPOOL_TEST_SCALE enlarges what is sampled (1 where unset): the nightly run takes more.
inline int test_scale() {
  const char* text = std::getenv("UNSPOOL_TEST_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

enum class Values {
  kOrdinary,  // around one, as activations and weights are
  kTiny,      // subnormal, and small enough that products are
  kHuge,      // products overflow
  kAny,       // every finite bit pattern, both zeros among them
  kTies,      // halfway between two bf16, and next to it
};
inline constexpr Values kAllValues[] = {Values::kOrdinary, Values::kTiny, Values::kHuge, Values::kAny, Values::kTies};

// The same values on every machine and with every standard library: engines are specified, distributions are not.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t next() { return engine_(); }
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  // In [-1, 1), 24 bits.
  float uniform() { return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) * 0x1p-23f; }

  float value(Values kind) {
    const auto bits = static_cast<uint32_t>(next());
    const uint32_t sign_and_mantissa = bits & 0x807fffffu;
    const uint32_t pick = static_cast<uint32_t>(next() % 1000);
    switch (kind) {
      case Values::kOrdinary:
        return pick == 0 ? from_bits(bits & 0x80000000u) : uniform() * 2.0f;
      case Values::kTiny:
        return from_bits(sign_and_mantissa | pick % 70 << 23);
      case Values::kHuge:
        return from_bits(sign_and_mantissa | (170 + pick % 85) << 23);
      case Values::kAny:
        return pick < 20 ? from_bits(bits & 0x80000000u) : from_bits(sign_and_mantissa | pick % 255 << 23);
      case Values::kTies:
        return from_bits((sign_and_mantissa & 0xffff0000u) + 0x7fffu + pick % 3 + ((120 + pick % 14) << 23));
    }
    return 0.0f;
  }
  std::vector<float> values(int64_t n, Values kind = Values::kOrdinary) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = value(kind);
    return v;
  }

 private:
  std::mt19937_64 engine_;
};

// FNV-1a over the bytes.
class Hash {
 public:
  template <class T>
  Hash& add(const T& values) {
    for (const auto& value : values) {
      static_assert(std::is_arithmetic_v<std::decay_t<decltype(value)>>);
      const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
      for (size_t i = 0; i < sizeof(value); ++i) state_ = (state_ ^ bytes[i]) * 0x100000001b3ull;
    }
    return *this;
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};

}  // namespace unspool
