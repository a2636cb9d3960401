// Norms, SiLU, rotation and conversions of every instruction set against the reference, bit for bit.
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

constexpr int64_t kLengths[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 576, 1000};

class ElementwiseTest : public testing::TestWithParam<Values> {
 protected:
  std::vector<float> values(int64_t n) { return random_.values(n, GetParam()); }

  // A gated activation of every table against the reference's.
  template <class Reference, class KernelOf>
  void expect_gated(Reference of_reference, KernelOf kernel_of) {
    for (const int64_t n : kLengths)
      for (const bool biased : {false, true}) {
        const auto gate = values(n), up = values(n), gate_bias = random_.values(n), up_bias = random_.values(n);
        const float* g = biased ? gate_bias.data() : nullptr;
        const float* u = biased ? up_bias.data() : nullptr;
        std::vector<float> expected(gate.size());
        of_reference(gate.data(), up.data(), g, u, n, expected.data());
        for (const KernelTable* table : tables()) {
          auto y = gate;
          kernel_of (*table)(y.data(), up.data(), g, u, n, y.data());
          EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << n;
        }
      }
  }

  FloatModeGuard mode_;
  Random random_{7};
};

TEST_P(ElementwiseTest, RmsNorm) {
  for (const int64_t n : kLengths)
    for (const float offset : {0.0f, 1.0f, -1.0f}) {
      const auto x = values(n), weight = random_.values(n);
      const float* w = offset >= 0.0f ? weight.data() : nullptr;
      std::vector<float> expected(x.size()), y(x.size());
      reference::rms_norm(x.data(), w, offset, 1e-6f, n, expected.data());
      for (const KernelTable* table : tables()) {
        table->rms_norm(x.data(), w, offset, 1e-6f, n, y.data());
        EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << n;
        auto in_place = x;
        table->rms_norm(in_place.data(), w, offset, 1e-6f, n, in_place.data());
        EXPECT_TRUE(same_bits(expected, in_place)) << table->name << ", " << n;
      }
    }
}

TEST_P(ElementwiseTest, SiluMul) {
  expect_gated(reference::silu_mul, [](const KernelTable& table) { return table.silu_mul; });
}

TEST_P(ElementwiseTest, GeluTanhMul) {
  expect_gated(reference::gelu_tanh_mul, [](const KernelTable& table) { return table.gelu_tanh_mul; });
}

TEST_P(ElementwiseTest, SoftCap) {
  for (const int64_t n : kLengths)
    for (const float cap : {0.5f, 30.0f}) {
      const auto x = values(n);
      std::vector<float> expected;
      for (const float value : x) expected.push_back(reference::softcap(value, cap));
      for (const KernelTable* table : tables()) {
        auto y = x;
        table->softcap(y.data(), cap, n);
        EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << n;
      }
    }
}

TEST_P(ElementwiseTest, Rotate) {
  for (const int64_t half : {1, 4, 5, 8, 10, 16, 32, 40, 64}) {
    const auto x = values(2 * half), cos = random_.values(half), sin = random_.values(half);
    auto expected = x;
    reference::rotate(expected.data(), cos.data(), sin.data(), half);
    for (const KernelTable* table : tables()) {
      auto y = x;
      table->rotate(y.data(), cos.data(), sin.data(), half);
      EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << half;
    }
  }
}

TEST_P(ElementwiseTest, Conversions) {
  for (const int64_t n : kLengths) {
    auto x = values(n);
    if (n > 16) {
      x[3] = std::numeric_limits<float>::quiet_NaN();
      x[5] = from_bits(0xff800001u);  // signalling, negative
      x[7] = std::numeric_limits<float>::infinity();
      x[9] = -x[7];
      x[11] = 65520.0f;  // the tie between the largest half and infinity
      x[13] = 0x1p-25f;  // the tie between zero and the smallest half
    }
    std::vector<uint16_t> hi(x.size()), lo(x.size()), half(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const reference::SplitBf16 split = reference::split_bf16(x[i]);
      hi[i] = split.hi;
      lo[i] = split.lo;
      half[i] = float_to_f16(x[i]);
    }
    for (const KernelTable* table : tables()) {
      std::vector<uint16_t> a(x.size() + 1, 0xabcd), b(x.size() + 1, 0xabcd);
      table->to_bf16(x.data(), n, a.data());
      EXPECT_EQ(a.back(), 0xabcd) << "written past the end";
      EXPECT_TRUE(same_bits(hi, std::span(a).first(x.size()))) << table->name << ", " << n;
      table->to_bf16x2(x.data(), n, a.data(), b.data());
      EXPECT_EQ(b.back(), 0xabcd) << "written past the end";
      EXPECT_TRUE(same_bits(hi, std::span(a).first(x.size()))) << table->name << ", " << n;
      for (size_t i = 0; i < x.size(); ++i) {
        const bool nan = bf16_to_float(lo[i]) != bf16_to_float(lo[i]);  // inf - inf
        EXPECT_TRUE(nan || lo[i] == b[i]) << table->name << ", low half of " << x[i];
      }
      table->to_f16(x.data(), n, a.data());
      EXPECT_TRUE(same_bits(half, std::span(a).first(x.size()))) << table->name << ", " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Values, ElementwiseTest, testing::ValuesIn(kAllValues));

// Every float whose lower half is a tie, next to one, or zero: all roundings of to_bf16 and to_f16.
TEST(ConversionSweepTest, EveryUpperHalf) {
  const FloatModeGuard mode;
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0x0fffu, 0x1000u, 0xffffu})
      x.push_back(from_bits(upper << 16 | lower));
  const auto n = static_cast<int64_t>(x.size());
  std::vector<uint16_t> bf16, f16, y(x.size());
  for (const float value : x) {
    bf16.push_back(float_to_bf16(value));
    f16.push_back(float_to_f16(value));
  }
  for (const KernelTable* table : tables()) {
    table->to_bf16(x.data(), n, y.data());
    EXPECT_TRUE(same_bits(bf16, y)) << table->name;
    table->to_f16(x.data(), n, y.data());
    EXPECT_TRUE(same_bits(f16, y)) << table->name;
  }
}

}  // namespace
}  // namespace unspool::cpu
