// The choice of the instruction set, and the floating-point mode around the kernels.
#include <immintrin.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

TEST(IsaTest, ScalarIsAlwaysThereAndLast) {
  const std::vector<std::string> names = available_instruction_sets();
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "scalar");
}

TEST(IsaTest, TheBestIsChosenAndAnyCanBeForced) {
  const std::vector<std::string> names = available_instruction_sets();
  EXPECT_EQ((*select_kernels(""))->name, names.front());
  for (const std::string& name : names) {
    const auto table = select_kernels(name);
    ASSERT_TRUE(table.ok()) << table.error().message;
    EXPECT_EQ((*table)->name, name);
  }
}

TEST(IsaTest, ForcingWhatIsNotThereNamesTheChoice) {
  for (const char* wrong : {"avx1024", "AVX2", " scalar"}) {
    const auto table = select_kernels(wrong);
    ASSERT_FALSE(table.ok());
    EXPECT_EQ(table.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(table.error().message.find("UNSPOOL_ISA"), std::string::npos) << table.error().message;
    EXPECT_NE(table.error().message.find(wrong), std::string::npos) << table.error().message;
    EXPECT_NE(table.error().message.find("scalar"), std::string::npos) << table.error().message;
  }
  ThreadPool pool(1);
  EXPECT_FALSE(CpuBackend::create(pool, "avx1024").ok());
}

TEST(IsaTest, EveryTablesBf16ProductFollowsTheContract) {
  for (const KernelTable* table : tables()) EXPECT_TRUE(bf16_product_follows_contract(*table)) << table->name;
}

// A table that rounds after each product, or takes the even one of a pair first, must be found out.
template <class Step>
KernelTable with_product(Step) {
  KernelTable table = *tables().back();
  table.product[static_cast<int>(Stored::kBf16)] = [](const ProductArgs& args) {
    const auto* a = static_cast<const uint16_t*>(args.a);
    const auto* b = static_cast<const uint16_t*>(args.b[0]);
    for (int j = 0; j < kPanel; ++j) {
      float acc = 0.0f;
      for (int64_t s = 0; s < args.steps; ++s)
        acc = Step{}(acc, bf16_to_float(a[2 * s]), bf16_to_float(b[(s * kPanel + j) * 2]), bf16_to_float(a[2 * s + 1]),
                     bf16_to_float(b[(s * kPanel + j) * 2 + 1]));
      args.c[j] = acc;
    }
  };
  return table;
}

TEST(IsaTest, TheStartUpCheckCanFail) {
  struct OddFirst {
    float operator()(float acc, float xe, float we, float xo, float wo) const {
      return __builtin_fmaf(xe, we, __builtin_fmaf(xo, wo, acc));
    }
  };
  struct EvenFirst {
    float operator()(float acc, float xe, float we, float xo, float wo) const {
      return __builtin_fmaf(xo, wo, __builtin_fmaf(xe, we, acc));
    }
  };
  struct TwoRoundings {
    float operator()(float acc, float xe, float we, float xo, float wo) const { return (acc + xo * wo) + xe * we; }
  };
  EXPECT_TRUE(bf16_product_follows_contract(with_product(OddFirst{})));
  EXPECT_FALSE(bf16_product_follows_contract(with_product(EvenFirst{})));
  EXPECT_FALSE(bf16_product_follows_contract(with_product(TwoRoundings{})));
}

TEST(FloatModeTest, IsSetInsideAndRestored) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(0x1f80u | _MM_ROUND_UP);
  {
    const FloatModeGuard mode;
    EXPECT_EQ(_mm_getcsr() & (_MM_ROUND_MASK | _MM_FLUSH_ZERO_MASK | _MM_DENORMALS_ZERO_MASK),
              _MM_ROUND_NEAREST | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    bf16_product_follows_contract(*tables().back());
  }
  EXPECT_EQ(_mm_getcsr() & ~0x3fu, 0x1f80u | _MM_ROUND_UP);  // the low six bits are sticky flags
  ThreadPool pool(2);
  pool.parallel_for(4, [](int64_t, int) { EXPECT_NE(_mm_getcsr() & _MM_FLUSH_ZERO_MASK, 0u); });
  EXPECT_EQ(_mm_getcsr() & ~0x3fu, 0x1f80u | _MM_ROUND_UP);
  _mm_setcsr(before);
}

}  // namespace
}  // namespace unspool::cpu
