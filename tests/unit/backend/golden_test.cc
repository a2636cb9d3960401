// Hashes of every kernel's results on fixed inputs, the same on every instruction set, compiler and build.
#include <cmath>

#include "../support/golden_hashes.h"
#include "attention_fixture.h"
#include "backend/math.h"
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

class GoldenTest : public testing::Test {
 protected:
  // f(table) gives the hash; every instruction set has to come to the committed one.
  template <class F>
  void expect(const std::string& key, F&& f) {
    for (const KernelTable* table : tables()) {
      SCOPED_TRACE(table->name);
      hashes_.expect(key, f(*table));
    }
  }

  FloatModeGuard mode_;
  GoldenHashes hashes_{"kernels.txt"};
  Random random_{51};
};

TEST_F(GoldenTest, Products) {
  for (const Stored stored : kAllStored) {
    const auto x = random_.values(33 * 577);
    auto w = random_.values(4 * kPanel * 577);
    // No subnormal halves here (product_test has them): qemu 7.2 flushes them under DAZ, which no processor does.
    for (float& value : w)
      if (std::abs(value) < 0x1p-14f) value = 0.0f;
    const PackedProduct packed(x, w, 577, stored);
    expect("product_" + std::string(torch_name(dtype_of(stored))),
           [&](const KernelTable& table) { return Hash().add(packed.run(table, 0, 33)).value(); });
  }
}

TEST_F(GoldenTest, Elementwise) {
  constexpr int64_t kN = 577;
  const auto x = random_.values(kN), y = random_.values(kN), tiny = random_.values(kN, Values::kTiny);
  const auto ties = random_.values(kN, Values::kTies);
  expect("rms_norm", [&](const KernelTable& table) {
    std::vector<float> out(kN);
    table.rms_norm(x.data(), y.data(), 0.0f, 1e-5f, kN, out.data());
    return Hash().add(out).value();
  });
  expect("silu_mul", [&](const KernelTable& table) {
    std::vector<float> out(kN);
    table.silu_mul(x.data(), y.data(), y.data(), x.data(), kN, out.data());
    return Hash().add(out).value();
  });
  expect("gelu_tanh_mul", [&](const KernelTable& table) {
    std::vector<float> out(kN);
    table.gelu_tanh_mul(x.data(), y.data(), y.data(), x.data(), kN, out.data());
    return Hash().add(out).value();
  });
  expect("softcap", [&](const KernelTable& table) {
    auto out = x;
    table.softcap(out.data(), 1.5f, kN);
    return Hash().add(out).value();
  });
  expect("rotate", [&](const KernelTable& table) {
    auto out = x;
    table.rotate(out.data(), y.data(), y.data() + kN / 2, kN / 2);
    return Hash().add(out).value();
  });
  expect("conversions", [&](const KernelTable& table) {
    Hash hash;
    std::vector<uint16_t> hi(kN), lo(kN);
    for (const auto* values : {&x, &tiny, &ties}) {
      table.to_bf16(values->data(), kN, hi.data());
      hash.add(hi);
      table.to_bf16x2(values->data(), kN, hi.data(), lo.data());
      hash.add(hi).add(lo);
      table.to_f16(values->data(), kN, hi.data());
      hash.add(hi);
    }
    return hash.value();
  });
}

TEST_F(GoldenTest, Vocabulary) {
  const auto x = random_.values(5000);
  expect("block_stats", [&](const KernelTable& table) {
    std::vector<BlockStat> stats((x.size() + kVocabBlock - 1) / kVocabBlock);
    table.vocab.block_stats(x.data(), static_cast<int64_t>(x.size()), stats.data());
    const BlockStat total = merge_block_stats(stats.data(), static_cast<int64_t>(stats.size()));
    Hash hash;
    for (const BlockStat& stat : stats) hash.add(std::vector<float>{stat.max, stat.sum});
    return hash.add(std::vector<float>{total.max, total.sum}).value();
  });
  expect("exp", [&](const KernelTable& table) {
    std::vector<float> in, out;
    for (int i = 0; i < 20000; ++i) in.push_back(-90.0f + 0.009f * static_cast<float>(i));
    out.resize(in.size());
    table.vocab.exp_shifted(in.data(), static_cast<int64_t>(in.size()), 0.5f, out.data());
    return Hash().add(out).value();
  });
}

TEST_F(GoldenTest, Attention) {
  struct Form {
    DType stored;
    MatmulPrecision precision;
  };
  for (const Form& form :
       {Form{DType::kBFloat16, MatmulPrecision::kBf16}, Form{DType::kBFloat16, MatmulPrecision::kBf16x2},
        Form{DType::kFloat16, MatmulPrecision::kBf16}, Form{DType::kFloat32, MatmulPrecision::kBf16}}) {
    AttentionHarness harness({.head_dim = 64,
                              .group = 3,
                              .kv_heads = 1,
                              .block_size = 16,
                              .stored = form.stored,
                              .precision = form.precision,
                              .qk_norm = true});
    const AttentionInput in = harness.input(140);
    const char* suffix = form.precision == MatmulPrecision::kBf16x2 ? "_x2" : "";
    expect("attention_" + std::string(torch_name(form.stored)) + suffix, [&](const KernelTable& table) {
      return Hash().add(harness.run_alone(backend_of(table.name, 1), in, 50)).value();
    });
  }
}

TEST_F(GoldenTest, ScalarFunctions) {
  std::vector<float> floats;
  std::vector<double> doubles;
  for (int i = 1; i <= 5000; ++i) {
    const double x = 0.0173 * i;
    double sine = 0.0, cosine = 0.0;
    contract_sincos(x * 97.0, &sine, &cosine);
    floats.push_back(contract_exp(static_cast<float>(x) - 40.0f));
    floats.push_back(contract_log(static_cast<float>(x)));
    for (const double value : {contract_exp(x - 40.0), contract_log(x), sine, cosine}) doubles.push_back(value);
  }
  hashes_.expect("scalar_functions", Hash().add(floats).add(doubles).value());
}

}  // namespace
}  // namespace unspool::cpu
