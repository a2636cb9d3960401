// The contract's own exp, log, sine and cosine: their error against long double, their special values, and the vector
// exp against the scalar one.
#include "backend/math.h"

#include <cmath>
#include <limits>

#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// |value - truth| in units of the last place of a float (or double) of the truth's size.
template <class T>
double error_ulp(T value, long double truth) {
  const int exponent = std::ilogb(truth) - (std::numeric_limits<T>::digits - 1);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - truth) / std::ldexp(1.0L, exponent));
}

// The largest error over x(i), i < n.
template <class X, class F, class Truth>
double worst(int n, X x, F f, Truth truth) {
  double most = 0.0;
  for (int i = 0; i < n; ++i) {
    const auto value = x(i);
    most = std::max(most, error_ulp(f(value), truth(static_cast<long double>(value))));
  }
  return most;
}

void expect_within(const char* what, double measured, double bound) {
  testing::Test::RecordProperty(what, std::to_string(measured));
  EXPECT_LE(measured, bound) << what;
  EXPECT_GE(measured, bound / 8) << what << ": the bound that math.h states is far from what is so";
}

TEST(MathTest, ExpOfFloatsIsWithinItsBound) {
  Random random(21);
  const auto x = [&](int) { return -87.0f + static_cast<float>(random.next() >> 40) * (175.72f / (1 << 24)); };
  const double error =
      worst(1 << 17, x, [](float v) { return contract_exp(v); }, [](long double v) { return expl(v); });
  expect_within("exp(float) ulp", error, kExpErrorUlp);
}

TEST(MathTest, LogOfFloatsIsWithinItsBound) {
  Random random(22);
  const auto any = [&](int) { return from_bits(0x00800000u + static_cast<uint32_t>(random.next() % 0x7f000000u)); };
  const auto near_one = [&](int) { return 1.0f + random.uniform() * 0x1p-6f; };
  const auto log = [](float v) { return contract_log(v); };
  const auto truth = [](long double v) { return logl(v); };
  expect_within("log(float) ulp", std::max(worst(1 << 16, any, log, truth), worst(1 << 16, near_one, log, truth)),
                kLogErrorUlp);
}

TEST(MathTest, TanhIsWithinItsBound) {
  Random random(25);
  const auto wide = [&](int) { return (random.uniform() - 0.5f) * 20.0f; };
  const auto near_zero = [&](int) { return (random.uniform() - 0.5f) * 1.2f; };
  const auto tanh = [](float v) { return contract_tanh(v); };
  const auto truth = [](long double v) { return tanhl(v); };
  expect_within("tanh(float) ulp", std::max(worst(1 << 16, wide, tanh, truth), worst(1 << 16, near_zero, tanh, truth)),
                kTanhErrorUlp);
  EXPECT_EQ(contract_tanh(0.0f), 0.0f);
  EXPECT_EQ(contract_tanh(1e9f), 1.0f);
  EXPECT_EQ(contract_tanh(-kInf), -1.0f);
  EXPECT_NE(contract_tanh(std::nanf("")), contract_tanh(std::nanf("")));
}

TEST(MathTest, DoublesAreWithinTheirBounds) {
  Random random(23);
  const auto uniform = [&] { return static_cast<double>(random.next() >> 11) * 0x1p-52 - 1.0; };  // [-1, 1)
  const auto exp = [](double v) { return contract_exp(v); };
  const double of_exp =
      std::max(worst(
                   1 << 15, [&](int) { return uniform() * 700.0; }, exp, [](long double v) { return expl(v); }),
               worst(1 << 15, [&](int) { return uniform() * 20.0; }, exp, [](long double v) { return expl(v); }));
  expect_within("exp(double) ulp", of_exp, kExpDoubleErrorUlp);
  const auto log = [](double v) { return contract_log(v); };
  const double of_log = worst(
      1 << 16, [&](int) { return std::ldexp(1.5 + uniform() * 0.5, random.below(400) - 200); }, log,
      [](long double v) { return logl(v); });
  expect_within("log(double) ulp", of_log, kLogDoubleErrorUlp);
}

// Near its zeros a sine's relative error is that of the reduced argument, so the bound is absolute, in units of 2^-53.
TEST(MathTest, SineAndCosineAreWithinTheirBound) {
  Random random(24);
  double most = 0.0;
  for (int i = 0; i < (1 << 16); ++i) {
    double x = static_cast<double>(random.uniform());
    if (i % 4 == 1) x *= 4.0;
    if (i % 4 == 2) x *= 4096.0;
    if (i % 4 == 3) x = static_cast<double>(static_cast<float>(x * 0x1p22));
    double sine = 0.0, cosine = 0.0;
    contract_sincos(x, &sine, &cosine);
    most = std::max(most, static_cast<double>(std::fabs(static_cast<long double>(sine) - sinl(x)) * 0x1p53L));
    most = std::max(most, static_cast<double>(std::fabs(static_cast<long double>(cosine) - cosl(x)) * 0x1p53L));
  }
  expect_within("sine and cosine, 2^-53", most, kSinCosError);
}

TEST(MathTest, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(bits_of(contract_exp(0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(contract_exp(-0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(contract_exp(-87.0f)), 0u);
  EXPECT_EQ(bits_of(contract_exp(-kInf)), 0u);
  EXPECT_GT(contract_exp(std::nextafter(-87.0f, 0.0f)), std::numeric_limits<float>::min());
  EXPECT_EQ(contract_exp(88.72283f), kInf);
  EXPECT_EQ(contract_exp(kInf), kInf);
  EXPECT_LT(contract_exp(std::nextafter(88.72283f, 0.0f)), kInf);
  EXPECT_TRUE(std::isnan(contract_exp(nan)));
  EXPECT_EQ(bits_of(contract_log(1.0f)), 0u);
  EXPECT_EQ(contract_log(0.0f), -kInf);
  EXPECT_EQ(contract_log(-0.0f), -kInf);
  EXPECT_EQ(contract_log(kInf), kInf);
  EXPECT_TRUE(std::isnan(contract_log(-1.0f)));
  EXPECT_TRUE(std::isnan(contract_log(nan)));
  double sine = 1.0, cosine = 0.0;
  contract_sincos(0.0, &sine, &cosine);
  EXPECT_EQ(sine, 0.0);
  EXPECT_EQ(cosine, 1.0);
}

TEST(MathTest, VectorExpIsTheScalarOne) {
  const FloatModeGuard mode;
  Random random(25);
  std::vector<float> x;
  for (const float special : {0.0f, -0.0f, -87.0f, 88.72283f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(),
                              1e9f, -1e9f, 1e30f, -1e30f, std::numeric_limits<float>::denorm_min(),
                              std::nextafter(-87.0f, 0.0f), std::nextafter(88.72283f, 0.0f)})
    x.push_back(special);
  const int n = (1 << 22) * test_scale();
  for (int i = 0; i < n; ++i)  // every exponent by turns, and what matters twice as densely
    x.push_back(i % 2 == 0 ? from_bits(static_cast<uint32_t>(random.next())) : random.uniform() * 89.0f);
  std::vector<float> expected(x.size()), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = contract_exp(x[i]);
  for (const KernelTable* table : tables()) {
    table->vocab.exp_shifted(x.data(), static_cast<int64_t>(x.size()), 0.0f, y.data());
    EXPECT_TRUE(same_bits(expected, y)) << table->name;
  }
}

// Where a block's probabilities are formed it must not matter that one key's score is barely above another's.
TEST(MathTest, ExpRises) {
  const FloatModeGuard mode;
  Random random(26);
  for (int i = 0; i < (1 << 16); ++i) {
    const float x = random.uniform() * 87.0f, next = std::nextafter(x, kInf);
    const float a = contract_exp(x), b = contract_exp(next);
    EXPECT_LE(bits_of(a), bits_of(b) + 1) << x;  // within one unit: a polynomial need not be monotonic in its last bit
  }
}

}  // namespace
}  // namespace unspool::cpu
