// The suite can fail (docs/numerics.md, section 6): each way to break the contract, put into the reference, is caught
// by the comparison that the other tests make. The unbroken variant equals the kernels, so what is caught is the break
// alone.
#include <cmath>

#include "attention_fixture.h"
#include "backend/math.h"
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

struct Mutation {
  bool split_k = false;          // two partial sums instead of one chain
  bool even_first = false;       // the other order in a pair
  bool blocks_by_chunk = false;  // attention blocks start where the step starts
  bool fresh_keys = false;       // this step's own keys in float32 instead of as they are stored
  bool rounded_mass = false;     // l over probabilities rounded to bf16
  bool stale_maximum = false;    // blocks are not rescaled exactly: the first maximum is kept
};

// The bf16 chain over floats that bf16 holds exactly (or, with fresh keys, does not).
float chain(const float* x, const float* w, int64_t k, const Mutation& m) {
  float partial[2] = {0.0f, 0.0f};
  for (int64_t i = 0; i < k; i += 2) {
    float& acc = partial[m.split_k ? i / 2 % 2 : 0];
    const float x_odd = i + 1 < k ? x[i + 1] : 0.0f, w_odd = i + 1 < k ? w[i + 1] : 0.0f;
    if (m.even_first)
      acc = __builtin_fmaf(x_odd, w_odd, __builtin_fmaf(x[i], w[i], acc));
    else
      acc = __builtin_fmaf(x[i], w[i], __builtin_fmaf(x_odd, w_odd, acc));
  }
  return m.split_k ? partial[0] + partial[1] : partial[0];
}

float bf16(float x) {
  return reference::stored_value(x, DType::kBFloat16);
}

std::vector<float> rounded(std::vector<float> values) {
  for (float& v : values) v = bf16(v);
  return values;
}

// y [rows, outputs].
std::vector<float> linear(const std::vector<float>& x, const std::vector<float>& w, int64_t k, const Mutation& m) {
  const auto a = rounded(x), b = rounded(w);
  std::vector<float> y;
  for (size_t r = 0; r < x.size(); r += static_cast<size_t>(k))
    for (size_t j = 0; j < w.size(); j += static_cast<size_t>(k)) y.push_back(chain(a.data() + r, b.data() + j, k, m));
  return y;
}

// One row of attention in a step that started at position `step_start`, bf16.
std::vector<float> attend(const float* q, const std::vector<float>& keys, const std::vector<float>& values,
                          int64_t visible, int64_t dim, int64_t step_start, const Mutation& m) {
  const auto n = static_cast<size_t>(dim);
  const std::vector<float> query = rounded(std::vector<float>(q, q + dim));
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  float max = -INFINITY, mass = 0.0f;
  std::vector<float> total(n, 0.0f);
  for (int64_t begin = 0; begin < visible;) {
    int64_t end = std::min(visible, (begin / 128 + 1) * 128);
    if (m.blocks_by_chunk)
      end = std::min(visible, begin < step_start ? std::min(step_start, begin + 128) : begin + 128);
    std::vector<float> p;
    float block_max = -INFINITY;
    for (int64_t i = begin; i < end; ++i) {
      std::vector<float> key(keys.begin() + i * dim, keys.begin() + (i + 1) * dim);
      if (!m.fresh_keys || i < step_start) key = rounded(key);
      p.push_back(chain(query.data(), key.data(), dim, m) * scale);
      block_max = std::max(block_max, p.back());
    }
    if (m.stale_maximum && begin > 0) block_max = max;
    float lanes[16] = {};
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] = contract_exp(p[i] - block_max);
      lanes[i % 16] += m.rounded_mass ? bf16(p[i]) : p[i];
    }
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    const float top = std::max(max, block_max), a = contract_exp(max - top), b = contract_exp(block_max - top);
    mass = __builtin_fmaf(mass, a, lanes[0] * b);
    max = top;
    p = rounded(p);
    for (size_t d = 0; d < n; ++d) {
      std::vector<float> column;
      for (int64_t i = begin; i < end; ++i) column.push_back(bf16(values[static_cast<size_t>(i) * n + d]));
      total[d] = __builtin_fmaf(total[d], a, chain(p.data(), column.data(), end - begin, m) * b);
    }
    begin = end;
  }
  for (float& t : total) t = t / mass + 0.0f;
  return total;
}

class MutantsTest : public testing::Test {
 protected:
  static constexpr int64_t kK = 300, kDim = 16, kTokens = 200;

  // What the kernels give for the same x [rows, kK] and w [32, kK].
  std::vector<float> kernel_linear() { return PackedProduct(x_, w_, kK, Stored::kBf16).run(*tables().front(), 0, 7); }

  // A whole sequence in chunks, by the mutated reference.
  std::vector<float> sequence(const AttentionHarness::Plain& plain, int64_t chunk, const Mutation& m) {
    std::vector<float> out;
    for (int64_t t = 0; t < kTokens; ++t) {
      const auto row = attend(plain.q[0].data() + t * kDim, plain.k[0], plain.v[0], t + 1, kDim, t / chunk * chunk, m);
      out.insert(out.end(), row.begin(), row.end());
    }
    return out;
  }

  FloatModeGuard mode_;
  Random random_{41};
  std::vector<float> x_ = random_.values(7 * kK), w_ = random_.values(32 * kK);
  AttentionHarness harness_{AttentionShape{.head_dim = kDim, .group = 1, .kv_heads = 1, .block_size = 16}};
  AttentionInput input_ = harness_.input(kTokens);
};

TEST_F(MutantsTest, TheUnbrokenVariantIsTheKernels) {
  EXPECT_TRUE(same_bits(linear(x_, w_, kK, {}), kernel_linear()));
  const auto plain = harness_.plain(input_);
  const std::vector<float> kernel = harness_.run_alone(backend_of("", 1), input_, 64);
  for (const int64_t chunk : {1, 64}) EXPECT_TRUE(same_bits(sequence(plain, chunk, {}), kernel));
}

TEST_F(MutantsTest, SplittingKIsCaught) {
  EXPECT_FALSE(same_bits(linear(x_, w_, kK, {.split_k = true}), kernel_linear()));
}

TEST_F(MutantsTest, SplittingKForOneRowAloneIsCaught) {
  const std::vector<float> together = linear(x_, w_, kK, {});
  const std::vector<float> alone = linear({x_.begin(), x_.begin() + kK}, w_, kK, {.split_k = true});
  EXPECT_FALSE(same_bits(std::span(together).first(32), alone));
}

// Of floats: the product of two bf16 is exact in float32, so that there only an underflow would show it.
TEST_F(MutantsTest, TwoRoundingsInAProductAreCaught) {
  std::vector<float> y;
  for (size_t r = 0; r < 7; ++r)
    for (size_t j = 0; j < 32; ++j) {
      float acc = 0.0f;
      for (size_t i = 0; i < kK; ++i) acc = x_[r * kK + i] * w_[j * kK + i] + acc;
      y.push_back(acc);
    }
  EXPECT_FALSE(same_bits(y, PackedProduct(x_, w_, kK, Stored::kF32).run(*tables().front(), 0, 7)));
}

TEST_F(MutantsTest, TheOtherOrderInAPairIsCaught) {
  EXPECT_FALSE(same_bits(linear(x_, w_, kK, {.even_first = true}), kernel_linear()));
}

TEST_F(MutantsTest, BlocksThatFollowTheChunksAreCaught) {
  const auto plain = harness_.plain(input_);
  const Mutation m{.blocks_by_chunk = true};
  EXPECT_FALSE(same_bits(sequence(plain, 48, m), sequence(plain, kTokens, m)));
}

TEST_F(MutantsTest, FreshKeysAreCaught) {
  const auto plain = harness_.plain(input_);
  const Mutation m{.fresh_keys = true};
  EXPECT_FALSE(same_bits(sequence(plain, 48, m), sequence(plain, 1, m)));
  EXPECT_FALSE(same_bits(sequence(plain, 1, m), harness_.run_alone(backend_of("", 1), input_, 1)));
}

TEST_F(MutantsTest, OtherSoftmaxesAreCaught) {
  const auto plain = harness_.plain(input_);
  const std::vector<float> kernel = harness_.run_alone(backend_of("", 1), input_, 64);
  EXPECT_FALSE(same_bits(sequence(plain, 1, {.rounded_mass = true}), kernel));
  EXPECT_FALSE(same_bits(sequence(plain, 1, {.stale_maximum = true}), kernel));
}

// The same code with subnormals kept.
TEST_F(MutantsTest, KeptSubnormalsAreCaught) {
  const auto x = random_.values(5 * kK, Values::kTiny), w = random_.values(16 * kK, Values::kTiny);
  for (const Stored stored : {Stored::kBf16, Stored::kF32}) {
    const PackedProduct packed(x, w, kK, stored);
    for (const KernelTable* table : tables()) {
      if (stored == Stored::kBf16 && std::string(table->name) == "avx512_bf16")
        continue;  // flushes whatever MXCSR says
      const std::vector<float> flushed = packed.run(*table, 0, 5);
      const unsigned mode = __builtin_ia32_stmxcsr();
      __builtin_ia32_ldmxcsr(0x1f80u);
      const std::vector<float> kept = packed.run(*table, 0, 5);
      __builtin_ia32_ldmxcsr(mode);
      EXPECT_FALSE(same_bits(flushed, kept)) << table->name;
    }
  }
}

// What -ffp-contract=fast would make of the separate steps.
TEST_F(MutantsTest, ContractionIsCaught) {
  const auto x = random_.values(64), cos = random_.values(32), sin = random_.values(32);
  auto turned = x, fused = x;
  tables().front()->rotate(turned.data(), cos.data(), sin.data(), 32);
  for (size_t j = 0; j < 32; ++j) {
    fused[j] = __builtin_fmaf(x[j], cos[j], -(x[32 + j] * sin[j]));
    fused[32 + j] = __builtin_fmaf(x[32 + j], cos[j], x[j] * sin[j]);
  }
  EXPECT_FALSE(same_bits(fused, turned));

  // The merge of two blocks, and a sum of squares: here the fused step is the written one.
  const BlockStat stats[] = {{1.0f, 1.7f}, {1.3f, 2.9f}};
  const float a = contract_exp(1.0f - 1.3f), b = 1.0f;
  EXPECT_EQ(bits_of(merge_block_stats(stats, 2).sum), bits_of(__builtin_fmaf(1.7f, a, 2.9f * b)));
  int differing = 0;
  for (int trial = 0; trial < 50; ++trial) {  // the root may lose the sum's last bit, so not every trial shows it
    const auto row = random_.values(576);
    std::vector<float> normed(576);
    tables().front()->rms_norm(row.data(), nullptr, 0.0f, 1e-5f, 576, normed.data());
    float lanes[16] = {};
    for (size_t i = 0; i < 576; ++i) lanes[i % 16] = lanes[i % 16] + row[i] * row[i];
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    const float inverse = 1.0f / std::sqrt(lanes[0] / 576.0f + 1e-5f);
    differing += !equal_bits(row[0] * inverse, normed[0]);
  }
  EXPECT_GT(differing, 0);
}

}  // namespace
}  // namespace unspool::cpu
