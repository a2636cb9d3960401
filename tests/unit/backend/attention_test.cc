// Attention against the reference and against itself: every schedule of a sequence gives the same bits.
#include <cmath>
#include <limits>

#include "attention_fixture.h"

namespace unspool::cpu {
namespace {

struct Case {
  int64_t head_dim;
  int group;
  int kv_heads;
  int64_t block_size;
  int64_t tokens;
};
constexpr Case kCases[] = {
    {8, 1, 2, 8, 150}, {10, 2, 1, 16, 140},  {16, 3, 2, 32, 131}, {20, 4, 1, 64, 133}, {64, 3, 1, 16, 262},
    {80, 5, 1, 8, 40}, {128, 6, 1, 128, 30}, {16, 7, 1, 16, 129}, {10, 8, 1, 8, 33},   {8, 9, 1, 128, 66},
};
struct Form {
  DType stored;
  MatmulPrecision precision;
};
constexpr Form kForms[] = {{DType::kBFloat16, MatmulPrecision::kBf16},
                           {DType::kBFloat16, MatmulPrecision::kBf16x2},
                           {DType::kFloat16, MatmulPrecision::kBf16},
                           {DType::kFloat32, MatmulPrecision::kBf16x2}};

class AttentionTest : public testing::TestWithParam<Form> {
 protected:
  AttentionShape shape(const Case& c) const {
    return {.head_dim = c.head_dim,
            .group = c.group,
            .kv_heads = c.kv_heads,
            .block_size = c.block_size,
            .stored = GetParam().stored,
            .precision = GetParam().precision,
            .qk_norm = c.group % 2 == 0};
  }
  FloatModeGuard mode_;
};

TEST_P(AttentionTest, EverySchedulesBitsAreTheReferences) {
  for (const Case& c : kCases) {
    AttentionHarness harness(shape(c));
    const AttentionInput in = harness.input(c.tokens);
    const std::vector<float> expected = harness.expected(in);
    for (const std::string& isa : available_instruction_sets())
      for (const int64_t chunk : {c.tokens, int64_t{17}})
        EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, chunk)))
            << shape(c).text() << ", " << isa << ", chunks of " << chunk;
    for (const int threads : {1, 2, 3})
      for (const int64_t chunk : {1, 3, 16, 64, 127, 128, 129})
        EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of("", threads), in, chunk)))
            << shape(c).text() << ", " << threads << " threads, chunks of " << chunk;
  }
}

TEST_P(AttentionTest, FeaturesThatAreNotRotated) {
  for (const int64_t passed : {4, 10, 20}) {
    AttentionShape some = shape({20, 2, 2, 16, 0});
    some.passed = passed;
    AttentionHarness harness(some);
    const AttentionInput in = harness.input(50);
    const std::vector<float> expected = harness.expected(in);
    for (const std::string& isa : available_instruction_sets())
      EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, 17))) << isa << ", " << passed;
  }
}

TEST_P(AttentionTest, NormsOverAllHeadsAtOnce) {
  AttentionShape over_all = shape({20, 2, 2, 16, 0});
  over_all.norm_over_all = true;
  AttentionHarness harness(over_all);
  const AttentionInput in = harness.input(40);
  const std::vector<float> expected = harness.expected(in);
  for (const std::string& isa : available_instruction_sets())
    EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, 17))) << isa;
}

// Windows at and around blocks of 128 keys and the row groups that share an item, with and without a soft cap.
TEST_P(AttentionTest, WindowsAndSoftCaps) {
  struct Bent {
    int64_t window;
    float softcap;
    Case c;
  };
  for (const Bent& bent :
       {Bent{1, 0.0f, {8, 1, 2, 8, 140}}, Bent{2, 0.0f, {16, 3, 1, 16, 131}}, Bent{17, 3.0f, {20, 4, 1, 64, 270}},
        Bent{127, 0.0f, {10, 2, 1, 16, 262}}, Bent{128, 0.0f, {10, 2, 1, 16, 262}},
        Bent{129, 2.0f, {16, 1, 1, 32, 300}}, Bent{250, 0.0f, {64, 3, 1, 16, 262}}, Bent{0, 2.0f, {16, 2, 2, 8, 262}},
        Bent{1000, 4.0f, {8, 9, 1, 128, 66}}}) {
    AttentionShape some = shape(bent.c);
    some.window = bent.window;
    some.softcap = bent.softcap;
    some.scale = 0.3f;
    AttentionHarness harness(some);
    const AttentionInput in = harness.input(bent.c.tokens);
    const std::vector<float> expected = harness.expected(in);
    for (const std::string& isa : available_instruction_sets())
      for (const int64_t chunk : {bent.c.tokens, int64_t{17}})
        EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, chunk)))
            << some.text() << ", " << isa << ", chunks of " << chunk;
    for (const int threads : {1, 2, 3})
      for (const int64_t chunk : {1, 16, 127, 128, 129})
        EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of("", threads), in, chunk)))
            << some.text() << ", " << threads << " threads, chunks of " << chunk;
  }
}

// A window of one key more or less is another sum: the test above can fail.
TEST_P(AttentionTest, AWindowIsExactlyItsKeys) {
  AttentionShape some = shape({16, 2, 1, 16, 0});
  some.window = 20;
  AttentionHarness harness(some);
  const AttentionInput in = harness.input(60);
  for (const int64_t other : {19, 21}) {
    AttentionShape changed = some;
    changed.window = other;
    EXPECT_FALSE(same_bits(harness.expected(in), AttentionHarness(changed).run_alone(backend_of("", 1), in, 60)));
  }
}

TEST_P(AttentionTest, WindowedSamplesOfAPromptAreThemselvesAlone) {
  AttentionShape some = shape({16, 3, 2, 16, 0});
  some.window = 150;
  AttentionHarness harness(some);
  const AttentionInput prompt = harness.input(300);
  std::vector<AttentionInput> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back(harness.fork(prompt, 256, 257 + i));
  for (const int threads : {1, 2}) {
    CpuBackend& backend = backend_of("", threads);
    const auto cache = harness.cache(backend);
    harness.run(backend, *cache, {prompt}, 300);
    const auto together = harness.run(backend, *cache, inputs, 1, nullptr, 256);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto own = static_cast<size_t>(256 * some.q_width());
      const std::vector<float> alone = harness.run_alone(backend, inputs[i], 300);
      EXPECT_TRUE(same_bits(std::span(alone).subspan(own), std::span(together[i]).subspan(own))) << i;
    }
  }
}

TEST_P(AttentionTest, BlockSizeIsNoMatter) {
  Case c{20, 3, 2, 16, 270};
  std::vector<float> first;
  for (const int64_t block_size : {16, 8, 32, 64, 128}) {
    c.block_size = block_size;
    AttentionHarness harness(shape(c));  // the same seed, so the same sequence in other blocks
    const AttentionInput in = harness.input(c.tokens);
    for (const std::string& isa : available_instruction_sets()) {
      const std::vector<float> y = harness.run_alone(backend_of(isa, 1), in, 100);
      if (first.empty()) first = y;
      EXPECT_TRUE(same_bits(first, y)) << isa << ", block_size " << block_size;
    }
  }
}

TEST_P(AttentionTest, ARaggedBatchIsItsSequencesAlone) {
  for (const Case& c : {Case{16, 3, 2, 16, 0}, Case{10, 1, 3, 8, 0}}) {
    AttentionHarness harness(shape(c));
    std::vector<AttentionInput> inputs;
    for (const int64_t tokens : {1, 130, 2, 47, 16, 200, 9}) inputs.push_back(harness.input(tokens));
    for (const int threads : {1, 3})
      for (const int64_t chunk : {1, 40, 300}) {
        CpuBackend& backend = backend_of("", threads);
        const auto cache = harness.cache(backend);
        const auto together = harness.run(backend, *cache, inputs, chunk);
        for (size_t i = 0; i < inputs.size(); ++i)
          EXPECT_TRUE(same_bits(harness.run_alone(backend, inputs[i], inputs[i].tokens), together[i]))
              << "sequence " << i << ", chunks of " << chunk;
      }
  }
}

// Whose block tables begin alike read the common keys together: 2 to 16 samples of a prompt, and those of another.
TEST_P(AttentionTest, SamplesOfAPromptAreThemselvesAlone) {
  for (const Case& c : {Case{16, 3, 2, 16, 0}, Case{10, 2, 1, 8, 0}, Case{64, 4, 1, 128, 0}}) {
    AttentionHarness harness(shape(c));
    for (const auto& [prefix, samples] : {std::pair{128, 2}, {256, 16}, {256, 3}}) {
      const AttentionInput prompt = harness.input(300), other = harness.input(300);
      std::vector<AttentionInput> inputs;
      for (int i = 0; i < samples; ++i) inputs.push_back(harness.fork(prompt, prefix, prefix + 1 + i * 3 % 8));
      inputs.push_back(harness.fork(other, prefix, prefix + 5));
      inputs.push_back(harness.fork(prompt, 128, 260));  // shares less than the others do
      for (const int threads : {1, 2}) {
        CpuBackend& backend = backend_of("", threads);
        const auto cache = harness.cache(backend);
        for (const auto& in : {prompt, other, inputs.back()}) harness.run(backend, *cache, {in}, 300);
        for (const int64_t chunk : {1, 3}) {
          const auto together = harness.run(backend, *cache, inputs, chunk, nullptr, prefix);
          for (size_t i = 0; i < inputs.size(); ++i) {
            const auto own = static_cast<size_t>(prefix * shape(c).q_width());
            const std::vector<float> alone = harness.run_alone(backend, inputs[i], 300);
            EXPECT_TRUE(same_bits(std::span(alone).subspan(own), std::span(together[i]).subspan(own)))
                << shape(c).text() << ", sample " << i << " of " << samples << ", prefix " << prefix << ", " << threads
                << " threads, chunks of " << chunk;
          }
        }
      }
    }
  }
}

// Values so near the smallest normal that sums over three blocks underflow: what a masked key holds must not show, not
// even in the sign of a zero.
TEST_P(AttentionTest, MaskedKeysLeaveNoSign) {
  AttentionHarness harness(shape({16, 2, 1, 16, 0}));
  AttentionInput in = harness.input(310);
  const int64_t width = shape({16, 2, 1, 16, 0}).width();
  Random random(17);
  for (int64_t t = 0; t < in.tokens; ++t)
    for (int64_t j = 0; j < width; ++j) {
      float& x = in.qkv[static_cast<size_t>(t * width + j)];
      x = j < width - 16 ? 2.0f * x : random.value(Values::kTiny) < 0.0f ? -0x1.4p-126f : 0x1.4p-126f;
    }
  const std::vector<float> expected = harness.expected(in);
  for (const std::string& isa : available_instruction_sets())
    for (const int64_t chunk : {1, 50, 310})
      EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, chunk)))
          << isa << ", chunks of " << chunk;
}

TEST_P(AttentionTest, TinyAndMixedValues) {
  for (const Values kind : {Values::kTiny, Values::kTies}) {
    AttentionHarness harness(shape({16, 2, 1, 16, 0}));
    const AttentionInput in = harness.input(150, kind);
    const std::vector<float> expected = harness.expected(in);
    for (const std::string& isa : available_instruction_sets())
      for (const int64_t chunk : {1, 64, 150})
        EXPECT_TRUE(same_bits(expected, harness.run_alone(backend_of(isa, 1), in, chunk)))
            << isa << ", chunks of " << chunk << ", values " << static_cast<int>(kind);
  }
}

// Stale keys and values of whoever had the blocks before.
TEST_P(AttentionTest, StaleContentIsHarmless) {
  for (const Case& c : {Case{10, 3, 1, 8, 53}, Case{64, 1, 2, 32, 131}}) {
    AttentionHarness harness(shape(c));
    const AttentionInput in = harness.input(c.tokens);
    CpuBackend& backend = backend_of("", 1);
    const std::vector<float> expected = harness.run_alone(backend, in, c.tokens);
    for (const float stale :
         {65504.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      AttentionInput before = in;  // fills the same blocks to their ends
      before.tokens = static_cast<int64_t>(in.blocks.size()) * c.block_size;
      before.qkv.assign(static_cast<size_t>(before.tokens * shape(c).width()), stale);
      const auto cache = harness.cache(backend);
      harness.run(backend, *cache, {before}, before.tokens);
      if (stale != 65504.0f) cache->zero_blocks(in.blocks);  // finite values need not even be zeroed
      for (const int64_t chunk : {int64_t{1}, c.tokens})
        EXPECT_TRUE(same_bits(expected, harness.run(backend, *cache, {in}, chunk)[0]))
            << stale << ", chunks of " << chunk;
    }
  }
}

TEST_P(AttentionTest, ACopiedBlockIsTheSamePrefix) {
  const Case c{16, 2, 1, 16, 40};
  AttentionHarness harness(shape(c));
  const AttentionInput in = harness.input(c.tokens);
  CpuBackend& backend = backend_of("", 1);
  const auto cache = harness.cache(backend);
  const auto expected = harness.run(backend, *cache, {in}, 1)[0];
  AttentionInput fork = in;  // its last block is a copy
  fork.blocks.back() = 1;
  cache->copy_block(in.blocks.back(), 1);
  cache->zero_blocks(std::span(&in.blocks.back(), 1));
  EXPECT_TRUE(same_bits(expected, harness.run(backend, *cache, {fork}, 40)[0]));
}

TEST_P(AttentionTest, ANonFiniteKeyOrValueMarksItsSequenceAlone) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Case c{16, 2, 2, 16, 0};
  AttentionHarness harness(shape(c));
  std::vector<AttentionInput> inputs;
  for (const int64_t tokens : {20, 70, 33}) inputs.push_back(harness.input(tokens));
  std::vector<std::vector<float>> alone;
  CpuBackend& backend = backend_of("", 2);
  for (const auto& in : inputs) alone.push_back(harness.run_alone(backend, in, in.tokens));
  std::vector<float> bad = {nan, inf, -inf};
  if (GetParam().stored == DType::kFloat16) bad.push_back(70000.0f);  // finite, but not as it is stored
  if (GetParam().stored == DType::kBFloat16) bad.push_back(std::numeric_limits<float>::max());
  for (const float value : bad)
    for (const bool in_value : {false, true}) {
      auto broken = inputs;
      const int64_t column = in_value ? shape(c).width() - 3 : shape(c).q_width() + 5;
      broken[1].qkv[static_cast<size_t>(60 * shape(c).width() + column)] = value;
      for (const int64_t chunk : {1, 100}) {
        const auto cache = harness.cache(backend);
        std::vector<uint8_t> marks;
        const auto y = harness.run(backend, *cache, broken, chunk, &marks);
        // A key is rotated first, which may bring it back in range.
        if (in_value || std::abs(value) == inf || value != value) {
          EXPECT_EQ(marks, (std::vector<uint8_t>{0, 1, 0})) << value << ", chunks of " << chunk;
        }
        EXPECT_TRUE(same_bits(alone[0], y[0]));
        EXPECT_TRUE(same_bits(alone[2], y[2]));
        const auto before = static_cast<size_t>(48 * shape(c).q_width());  // rows whose items end before the bad one
        if (chunk == 1) {
          EXPECT_TRUE(same_bits(std::span(alone[1]).first(before), std::span(y[1]).first(before)));
        }
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Forms, AttentionTest, testing::ValuesIn(kForms), [](const auto& info) {
  return std::string(torch_name(info.param.stored)) + (info.param.precision == MatmulPrecision::kBf16x2 ? "_x2" : "");
});

TEST(KvCacheTest, OnlyBlockSizesThatTileAKeyBlock) {
  CpuBackend& backend = backend_of("", 1);
  auto make = [&](int64_t block_size, int64_t head_dim) {
    return backend.make_kv_cache(
        {.layers = 1, .blocks = 2, .block_size = block_size, .kv_heads = 1, .head_dim = head_dim});
  };
  for (const int64_t size : {8, 16, 32, 64, 128}) EXPECT_TRUE(make(size, 16).ok()) << size;
  for (const int64_t size : {0, 1, 4, 12, 24, 40, 48, 96, 136, 256}) EXPECT_ANY_THROW((void)make(size, 16)) << size;
  EXPECT_ANY_THROW((void)make(16, 15));
}

}  // namespace
}  // namespace unspool::cpu
