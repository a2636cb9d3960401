// The backend's operations against the reference: every instruction set, one to three threads, every dtype.
#include <bit>
#include <cstring>

#include "backend/reference/vocab_reference.h"
#include "backend_fixture.h"
#include "tensor/convert.h"

namespace unspool::cpu {
namespace {

// A tensor as a checkpoint holds it, at an odd address as a file may put it.
class Source {
 public:
  Source(const std::vector<float>& values, int64_t columns, DType dtype) {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    bytes_.resize(values.size() * size + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      unsigned char* to = bytes_.data() + 1 + i * size;
      const uint16_t half = dtype == DType::kBFloat16 ? float_to_bf16(values[i]) : float_to_f16(values[i]);
      std::memcpy(to, dtype == DType::kFloat32 ? static_cast<const void*>(&values[i]) : &half, size);
    }
    view_ = {bytes_.data() + 1, dtype, Shape{static_cast<int64_t>(values.size()) / columns, columns}};
  }
  const TensorView& view() const { return view_; }

 private:
  std::vector<unsigned char> bytes_;
  TensorView view_;
};

// Rows of several tensors, one below the other: the parts' sizes are no multiples of a panel's 16.
std::unique_ptr<Matrix> stacked(CpuBackend& backend, const std::vector<float>& w, int64_t columns, DType dtype,
                                DType from) {
  const int64_t rows = static_cast<int64_t>(w.size()) / columns;
  std::unique_ptr<Matrix> matrix = backend.make_matrix(rows, columns, dtype).value();
  constexpr int64_t kParts[] = {5, 32, 1, 20, 7};
  int64_t first = 0;
  for (size_t i = 0; first < rows; ++i) {
    const int64_t n = std::min(kParts[i % std::size(kParts)], rows - first);
    const std::vector<float> part(w.begin() + first * columns, w.begin() + (first + n) * columns);
    backend.load_rows(*matrix, first, Source(part, columns, from).view());
    first += n;
  }
  return matrix;
}

class CpuBackendTest : public testing::TestWithParam<DType> {
 protected:
  FloatModeGuard mode_;
  Random random_{11};
};

TEST_P(CpuBackendTest, LoadRowsConvertsAndEmbedReadsBack) {
  constexpr int64_t kRows = 90;
  for (const int64_t columns : {1, 6, 33})
    for (const DType from : kServedTypes) {
      const auto w = random_.values(kRows * columns);
      std::vector<float> expected;
      std::vector<int32_t> ids;
      for (int i = 0; i < 2 * kRows; ++i) ids.push_back(random_.below(kRows));
      for (const int32_t id : ids)
        for (int64_t c = 0; c < columns; ++c)
          expected.push_back(reference::stored_value(
              reference::stored_value(w[static_cast<size_t>(id * columns + c)], from), GetParam()));
      for_every_backend([&](CpuBackend& backend, const std::string& name) {
        const auto matrix = stacked(backend, w, columns, GetParam(), from);
        EXPECT_GE(matrix->size_bytes(), static_cast<size_t>(kRows * columns * dtype_size(GetParam())));
        std::vector<float> y(expected.size());
        backend.embed(*matrix, ids, 1.0f, y.data());
        EXPECT_TRUE(same_bits(expected, y)) << name << ", " << columns << " columns from " << torch_name(from);
        std::vector<float> scaled = expected;
        for (float& value : scaled) value = value * 6.3f;
        backend.embed(*matrix, ids, 6.3f, y.data());
        EXPECT_TRUE(same_bits(scaled, y)) << name << ", " << columns << " columns, scaled";
      });
    }
}

TEST_P(CpuBackendTest, EmbedChecksItsIds) {
  CpuBackend& backend = backend_of("", 1);
  const auto matrix = stacked(backend, random_.values(20), 2, GetParam(), DType::kFloat32);
  float y[2];
  for (const int32_t id : {-1, 10}) EXPECT_ANY_THROW(backend.embed(*matrix, std::span(&id, 1), 1.0f, y));
}

TEST_P(CpuBackendTest, Linear) {
  constexpr int64_t kOutputs = 330, kColumns = 83, kStride = 340, kMost = 200;
  const auto x = random_.values(kMost * kColumns), w = random_.values(kOutputs * kColumns);
  const auto bias = random_.values(kOutputs), old = random_.values(kMost * kStride);
  std::vector<float> residual;
  for (int64_t r = 0; r < kMost; ++r)
    residual.insert(residual.end(), old.begin() + r * kStride, old.begin() + r * kStride + kOutputs);
  for (const auto precision : {MatmulPrecision::kBf16, MatmulPrecision::kBf16x2})
    for (const bool full : {false, true}) {  // with bias and residual, or with neither
      std::vector<float> expected(kMost * kOutputs);
      reference::linear({.x = x.data(),
                         .rows = kMost,
                         .columns = kColumns,
                         .w = w.data(),
                         .outputs = kOutputs,
                         .dtype = GetParam(),
                         .precision = precision,
                         .bias = full ? bias.data() : nullptr,
                         .residual = full ? residual.data() : nullptr},
                        expected.data());
      for_every_backend([&](CpuBackend& backend, const std::string& name) {
        const auto matrix = stacked(backend, w, kColumns, GetParam(), GetParam());
        const auto input = backend.make_product_input(kMost, kColumns, GetParam(), precision).value();
        for (const int64_t rows : {1, 2, 5, 9, 33, 97, 200}) {
          backend.prepare(x.data(), rows, kColumns, *input);
          auto y = old;
          backend.linear(*input, *matrix, full ? bias.data() : nullptr, full, y.data(), kStride);
          for (int64_t r = 0; r < rows; ++r)
            ASSERT_TRUE(same_bits(std::span(expected).subspan(static_cast<size_t>(r * kOutputs), kOutputs),
                                  std::span(y).subspan(static_cast<size_t>(r * kStride), kOutputs)))
                << name << ", row " << r << " of " << rows;
          EXPECT_EQ(y[kOutputs], old[kOutputs]) << "written past a row's end";
        }
      });
    }
}

// The norm's rows are a product's left side: seen through a product.
TEST_P(CpuBackendTest, LogitsAreALinearsWithTheStatsOfTheirBlocks) {
  constexpr int64_t kColumns = 40, kMost = 100;
  const auto x = random_.values(kMost * kColumns);
  for (const int64_t outputs : {7, 256, 600, 4000}) {
    const auto w = random_.values(outputs * kColumns);
    for_every_backend([&](CpuBackend& backend, const std::string& name) {
      const auto matrix = stacked(backend, w, kColumns, GetParam(), GetParam());
      const auto input = backend.make_product_input(kMost, kColumns, GetParam(), MatmulPrecision::kBf16x2).value();
      for (const int64_t rows : {int64_t{1}, int64_t{5}, int64_t{16}, kMost}) {
        std::vector<float> y(static_cast<size_t>(rows * outputs)), expected(y.size());
        std::vector<BlockStat> blocks(static_cast<size_t>(rows * vocab_blocks(outputs))), stats(blocks.size());
        backend.prepare(x.data(), rows, kColumns, *input);
        const float cap = rows == 5 ? 4.0f : 0.0f;
        backend.logits(*input, *matrix, cap, y.data(), blocks.data());
        backend.linear(*input, *matrix, nullptr, false, expected.data(), outputs);
        if (cap != 0.0f)
          for (float& logit : expected) logit = reference::softcap(logit, cap);
        for (int64_t r = 0; r < rows; ++r)
          reference_vocab_kernels().block_stats(expected.data() + r * outputs, outputs,
                                                stats.data() + r * vocab_blocks(outputs));
        EXPECT_TRUE(same_bits(y, expected)) << name << ", " << rows << " rows of " << outputs;
        for (size_t b = 0; b < blocks.size(); ++b) {
          ASSERT_EQ(blocks[b].max, stats[b].max) << name << ", " << rows << " rows of " << outputs;
          ASSERT_EQ(std::bit_cast<uint32_t>(blocks[b].sum), std::bit_cast<uint32_t>(stats[b].sum));
        }
      }
    });
  }
}

TEST_P(CpuBackendTest, RmsNormAndGatedSilu) {
  constexpr int64_t kRows = 37, kHidden = 45, kInner = 83;
  const auto x = random_.values(kRows * kHidden), weight = random_.values(kHidden);
  const auto gate = random_.values(kInner * kHidden), up = random_.values(kInner * kHidden);
  const auto gate_bias = random_.values(kInner), up_bias = random_.values(kInner), down = random_.values(50 * kInner);
  for (const auto precision : {MatmulPrecision::kBf16, MatmulPrecision::kBf16x2})
    for (const bool biased : {false, true}) {
      std::vector<float> normed(x.size()), g(kRows * kInner), u(g), inner(g), expected(kRows * 50);
      for (int64_t r = 0; r < kRows; ++r)
        reference::rms_norm(x.data() + r * kHidden, weight.data(), 0.0f, 1e-5f, kHidden, normed.data() + r * kHidden);
      const reference::LinearArgs in{.x = normed.data(),
                                     .rows = kRows,
                                     .columns = kHidden,
                                     .w = gate.data(),
                                     .outputs = kInner,
                                     .dtype = GetParam(),
                                     .precision = precision};
      reference::linear(in, g.data());
      auto in_up = in;
      in_up.w = up.data();
      reference::linear(in_up, u.data());
      for (int64_t r = 0; r < kRows; ++r)
        reference::silu_mul(g.data() + r * kInner, u.data() + r * kInner, biased ? gate_bias.data() : nullptr,
                            biased ? up_bias.data() : nullptr, kInner, inner.data() + r * kInner);
      reference::linear({.x = inner.data(),
                         .rows = kRows,
                         .columns = kInner,
                         .w = down.data(),
                         .outputs = 50,
                         .dtype = GetParam(),
                         .precision = precision},
                        expected.data());
      for_every_backend([&](CpuBackend& backend, const std::string& name) {
        const auto gates = stacked(backend, gate, kHidden, GetParam(), GetParam());
        const auto ups = stacked(backend, up, kHidden, GetParam(), GetParam());
        const auto downs = stacked(backend, down, kInner, GetParam(), GetParam());
        const auto first = backend.make_product_input(kRows, kHidden, GetParam(), precision).value();
        const auto second = backend.make_product_input(kRows, kInner, GetParam(), precision).value();
        for (const int64_t rows : {int64_t{1}, int64_t{4}, kRows}) {
          backend.rms_norm(x.data(), rows, {weight, 1e-5f}, *first);
          backend.gated(*first,
                        {.gate = gates.get(),
                         .up = ups.get(),
                         .gate_bias = biased ? gate_bias.data() : nullptr,
                         .up_bias = biased ? up_bias.data() : nullptr},
                        *second);
          std::vector<float> y(static_cast<size_t>(rows * 50));
          backend.linear(*second, *downs, nullptr, false, y.data(), 50);
          EXPECT_TRUE(same_bits(std::span(expected).first(y.size()), y)) << name << ", " << rows << " rows";
        }
      });
    }
}

// Gate and up projection in one matrix, whose second half starts at any row of a panel; and the other activation.
TEST_P(CpuBackendTest, GatesAboveTheOtherProjection) {
  constexpr int64_t kRows = 100, kHidden = 30;
  const auto x = random_.values(kRows * kHidden);
  for (const int64_t inner : {16, 17, 31, 64, 83, 200}) {
    const auto both = random_.values(2 * inner * kHidden);
    const std::vector<float> gate(both.begin(), both.begin() + inner * kHidden);
    const std::vector<float> up(both.begin() + inner * kHidden, both.end());
    const auto down = random_.values(20 * inner);
    for (const auto activation : {Activation::kSilu, Activation::kGeluTanh}) {
      std::vector<float> g(static_cast<size_t>(kRows * inner)), u(g), expected(kRows * 20);
      reference::LinearArgs in{.x = x.data(),
                               .rows = kRows,
                               .columns = kHidden,
                               .w = gate.data(),
                               .outputs = inner,
                               .dtype = GetParam(),
                               .precision = MatmulPrecision::kBf16x2};
      reference::linear(in, g.data());
      in.w = up.data();
      reference::linear(in, u.data());
      const auto mul = activation == Activation::kSilu ? reference::silu_mul : reference::gelu_tanh_mul;
      mul(g.data(), u.data(), nullptr, nullptr, kRows * inner, g.data());
      reference::linear({.x = g.data(),
                         .rows = kRows,
                         .columns = inner,
                         .w = down.data(),
                         .outputs = 20,
                         .dtype = GetParam(),
                         .precision = MatmulPrecision::kBf16x2},
                        expected.data());
      for_every_backend([&](CpuBackend& backend, const std::string& name) {
        const auto fused = stacked(backend, both, kHidden, GetParam(), GetParam());
        const auto downs = stacked(backend, down, inner, GetParam(), GetParam());
        const auto first = backend.make_product_input(kRows, kHidden, GetParam(), MatmulPrecision::kBf16x2).value();
        const auto second = backend.make_product_input(kRows, inner, GetParam(), MatmulPrecision::kBf16x2).value();
        for (const int64_t rows : {int64_t{1}, int64_t{7}, kRows}) {
          backend.prepare(x.data(), rows, kHidden, *first);
          backend.gated(*first, {.gate = fused.get(), .up = fused.get(), .up_row = inner, .activation = activation},
                        *second);
          std::vector<float> y(static_cast<size_t>(rows * 20));
          backend.linear(*second, *downs, nullptr, false, y.data(), 20);
          EXPECT_TRUE(same_bits(std::span(expected).first(y.size()), y)) << name << ", " << rows << " x " << inner;
        }
      });
    }
  }
}

TEST_P(CpuBackendTest, ANormThatIsAdded) {
  constexpr int64_t kRows = 20, kHidden = 45;
  const auto x = random_.values(kRows * kHidden), old = random_.values(kRows * kHidden);
  const auto weight = random_.values(kHidden);
  std::vector<float> expected(x.size());
  for (int64_t r = 0; r < kRows; ++r)
    reference::rms_norm(x.data() + r * kHidden, weight.data(), 1.0f, 1e-5f, kHidden, expected.data() + r * kHidden);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = old[i] + expected[i];
  for_every_backend([&](CpuBackend& backend, const std::string& name) {
    for (const int64_t rows : {int64_t{2}, kRows}) {
      auto y = old;
      backend.add_rms_norm(x.data(), rows, {weight, 1e-5f, 1.0f}, y.data());
      const auto written = static_cast<size_t>(rows * kHidden);
      EXPECT_TRUE(same_bits(std::span(expected).first(written), std::span(y).first(written))) << name;
      EXPECT_TRUE(same_bits(std::span(old).subspan(written), std::span(y).subspan(written))) << name;
    }
  });
}

// Neither a few rows (the caller's own work) nor many may depend on the mode that the caller came in.
TEST_P(CpuBackendTest, TheCallersFloatModeHasNoSay) {
  constexpr int64_t kColumns = 40, kMost = 20;
  const auto x = random_.values(kMost * kColumns, Values::kTiny), w = random_.values(16 * kColumns);
  const std::vector<float> weight(kColumns, 1e-3f);
  CpuBackend& backend = backend_of("", 2);
  const auto matrix = stacked(backend, w, kColumns, GetParam(), GetParam());
  const auto input = backend.make_product_input(kMost, kColumns, GetParam(), MatmulPrecision::kBf16x2).value();
  auto run = [&](int64_t rows) {
    std::vector<float> y(static_cast<size_t>(rows * 16));
    backend.rms_norm(x.data(), rows, {weight, 1e-12f}, *input);
    backend.linear(*input, *matrix, nullptr, false, y.data(), 16);
    return y;
  };
  for (const int64_t rows : {int64_t{1}, int64_t{4}, kMost}) {
    const std::vector<float> guarded = run(rows);
    const unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x1f80u | 0x4000u);  // round up, keep subnormals
    const std::vector<float> bare = run(rows);
    __builtin_ia32_ldmxcsr(mode);
    EXPECT_TRUE(same_bits(guarded, bare)) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CpuBackendTest, testing::ValuesIn(kServedTypes),
                         [](const auto& info) { return std::string(torch_name(info.param)); });

}  // namespace
}  // namespace unspool::cpu
