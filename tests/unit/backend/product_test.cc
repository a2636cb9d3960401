// Matrix products of every instruction set against the reference, bit for bit.
#include "kernel_fixture.h"

namespace unspool::cpu {
namespace {

struct Size {
  int64_t k;
  int panels;
};
// Odd and even k, one step and many, panel counts around every register tile's width.
constexpr Size kSizes[] = {{1, 1}, {2, 3}, {3, 4}, {5, 7}, {64, 5}, {129, 2}, {576, 1}};

std::vector<float> first_rows(const std::vector<float>& all, int64_t rows, int64_t width) {
  return {all.begin(), all.begin() + rows * width};
}

class ProductTest : public testing::TestWithParam<Stored> {
 protected:
  FloatModeGuard mode_;
};

TEST_P(ProductTest, EveryRowCountGivesTheReferencesBits) {
  Random random(1);
  for (const Size& size : kSizes)
    for (const Values kind : kAllValues) {
      const int64_t width = size.panels * kPanel, most = kind == Values::kOrdinary ? 512 : 17;
      const auto x = random.values(most * size.k, kind), w = random.values(width * size.k, kind);
      std::vector<float> expected(static_cast<size_t>(most * width));
      reference::linear({.x = x.data(),
                         .rows = most,
                         .columns = size.k,
                         .w = w.data(),
                         .outputs = width,
                         .dtype = dtype_of(GetParam())},
                        expected.data());
      const PackedProduct packed(x, w, size.k, GetParam());
      for (const KernelTable* table : tables())
        for (const int64_t rows : kRowCounts) {
          if (rows > most) break;
          ASSERT_TRUE(same_bits(first_rows(expected, rows, width), packed.run(*table, 0, rows)))
              << table->name << ", " << rows << " rows, k " << size.k << ", " << size.panels << " panels, values "
              << static_cast<int>(kind);
        }
    }
}

TEST_P(ProductTest, ARowAloneGivesItsBitsAmongOthers) {
  constexpr int64_t kRows = 33, kColumns = 70;
  Random random(2);
  const auto x = random.values(kRows * kColumns), w = random.values(3 * kPanel * kColumns);
  const PackedProduct packed(x, w, kColumns, GetParam());
  for (const KernelTable* table : tables()) {
    const std::vector<float> together = packed.run(*table, 0, kRows);
    for (int64_t r = 0; r < kRows; ++r) {
      const auto row = together.begin() + r * 3 * kPanel;
      EXPECT_TRUE(same_bits(std::vector<float>(row, row + 3 * kPanel), packed.run(*table, r, 1))) << table->name;
    }
  }
}

// Keys and values lie in cache blocks: the right side comes in chunks, its steps apart.
TEST_P(ProductTest, ChunksAndStridesChangeNothing) {
  constexpr int64_t kRows = 7, kColumns = 58;
  Random random(3);
  const auto x = random.values(kRows * kColumns), w = random.values(2 * kPanel * kColumns);
  const PackedProduct packed(x, w, kColumns, GetParam());
  const int64_t step_bytes = GetParam() == Stored::kF16 ? 32 : 64;
  // The two panels side by side in every step, cut into chunks that lie in reverse order.
  constexpr int64_t kChunk = 8;
  const int64_t chunks = (packed.steps + kChunk - 1) / kChunk;
  std::vector<unsigned char> blocks(static_cast<size_t>(chunks * kChunk * 2 * step_bytes));
  std::vector<const void*> starts;
  for (int64_t c = 0; c < chunks; ++c)
    for (int p = 0; p < 2; ++p) {
      unsigned char* start = blocks.data() + (chunks - 1 - c) * kChunk * 2 * step_bytes + p * step_bytes;
      starts.push_back(start);
      for (int64_t s = 0; s < kChunk && c * kChunk + s < packed.steps; ++s) {
        const auto* from = static_cast<const unsigned char*>(packed.panel_starts[static_cast<size_t>(p)]);
        std::memcpy(start + s * 2 * step_bytes, from + (c * kChunk + s) * step_bytes, static_cast<size_t>(step_bytes));
      }
    }
  for (const KernelTable* table : tables()) {
    std::vector<float> c(kRows * 2 * kPanel);
    ProductArgs args{};
    args.a = packed.a.data();
    args.a_stride = packed.steps;
    args.rows = kRows;
    args.b = starts.data();
    args.b_stride = 2;
    args.steps = packed.steps;
    args.steps_per_chunk = kChunk;
    args.panels = 2;
    args.c = c.data();
    args.c_stride = 2 * kPanel;
    table->product[static_cast<int>(GetParam())](args);
    EXPECT_TRUE(same_bits(packed.run(*table, 0, kRows), c)) << table->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, ProductTest, testing::ValuesIn(kAllStored), [](const auto& info) {
  return std::string(info.param == Stored::kBf16 ? "bf16" : info.param == Stored::kF16 ? "f16" : "f32");
});

TEST(EpilogueTest, AddsBiasThenResidual) {
  const FloatModeGuard mode;
  Random random(4);
  for (const int64_t columns : {1, 15, 16, 17, 64})
    for (const bool with_bias : {false, true})
      for (const bool add : {false, true}) {
        constexpr int64_t kRows = 3, kTileStride = 64, kStride = 70;
        const auto tile = random.values(kRows * kTileStride, Values::kAny);
        const auto bias = random.values(columns, Values::kAny), old = random.values(kRows * kStride, Values::kAny);
        auto expected = old;
        for (int64_t r = 0; r < kRows; ++r)
          for (int64_t j = 0; j < columns; ++j) {
            float v = tile[static_cast<size_t>(r * kTileStride + j)];
            if (with_bias) v = v + bias[static_cast<size_t>(j)];
            if (add) v = v + old[static_cast<size_t>(r * kStride + j)];
            expected[static_cast<size_t>(r * kStride + j)] = v;
          }
        for (const KernelTable* table : tables()) {
          auto y = old;
          table->epilogue({.tile = tile.data(),
                           .tile_stride = kTileStride,
                           .rows = kRows,
                           .columns = columns,
                           .bias = with_bias ? bias.data() : nullptr,
                           .y = y.data(),
                           .y_stride = kStride,
                           .add_to_y = add});
          EXPECT_TRUE(same_bits(expected, y)) << table->name << ", " << columns << " columns";
        }
      }
}

}  // namespace
}  // namespace unspool::cpu
