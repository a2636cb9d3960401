// Packing of every instruction set, from and to every type: the bits of a cast, at the place that the layout says.
#include "backend/cpu/packed_matrix.h"

#include "backend_fixture.h"
#include "kernel_fixture.h"
#include "tensor/cast.h"

namespace unspool::cpu {
namespace {

// Any bits, NaN and subnormals among them.
std::vector<std::byte> random_bytes(int64_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

struct Types {
  DType from, to;
};

class PackTest : public testing::TestWithParam<Types> {
 protected:
  int64_t size_of(DType dtype) const { return dtype_size(dtype); }
  std::vector<std::byte> cast(const std::byte* rows, int64_t count) const {
    std::vector<std::byte> out(static_cast<size_t>(count * size_of(GetParam().to)));
    cast_elements(rows, GetParam().from, count, GetParam().to, out.data());
    return out;
  }
  FloatModeGuard mode_;
};

TEST_P(PackTest, EveryElementIsTheCastOne) {
  const auto [from, to] = GetParam();
  const auto size = static_cast<size_t>(size_of(to));
  for (const int64_t columns : {1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 576}) {
    const int64_t count = kPanel * columns;
    // From the middle of an element on, as in a buffer of tensors one behind the other.
    auto bytes = random_bytes(count * size_of(from) + 1, 5);
    const std::byte* rows = bytes.data() + 1;
    const auto expected = cast(rows, count);
    for (const KernelTable* table : tables()) {
      const auto matrix = PackedMatrix::create(kPanel, columns, to).value();
      const std::span<std::byte> storage = matrix->storage();
      const std::vector<std::byte> guard(64, std::byte{0x5a});
      std::vector<std::byte> after(matrix->size_bytes() + 64 + 64);
      auto* panel = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(after.data()) + 63) / 64 * 64);
      std::copy(guard.begin(), guard.end() - (panel - after.data()), panel + matrix->size_bytes());
      table->pack[static_cast<int>(stored_as(from))][static_cast<int>(stored_as(to))](rows, columns, panel);
      std::copy(panel, panel + storage.size(), storage.begin());
      for (int64_t row = 0; row < kPanel; ++row) {
        const RowLayout layout = matrix->row_layout(row);
        for (int64_t k = 0; k < columns; ++k)
          ASSERT_EQ(std::memcmp(storage.data() + static_cast<size_t>(layout.position(k)) * size,
                                expected.data() + static_cast<size_t>(row * columns + k) * size, size),
                    0)
              << table->name << ", " << columns << " columns, row " << row << ", column " << k;
      }
      EXPECT_TRUE(std::equal(guard.begin(), guard.end() - (panel - after.data()), panel + storage.size()))
          << table->name << " wrote past the panel";
    }
  }
}

// Tensors that share panels, through the backend: whole panels and parts of them hold the same.
TEST_P(PackTest, PartsOfPanelsAreNoDifferent) {
  const auto [from, to] = GetParam();
  constexpr int64_t kRows = 77;
  for (const int64_t columns : {9, 40}) {
    const auto bytes = random_bytes(kRows * columns * size_of(from), 6);
    const auto expected = cast(bytes.data(), kRows * columns);
    for_every_backend([&](CpuBackend& backend, const std::string& name) {
      const auto matrix = backend.make_matrix(kRows, columns, to).value();
      const auto same = backend.make_matrix(kRows, columns, to).value();
      for (int64_t first = 0, part = 1; first < kRows; first += part, part += 13) {
        part = std::min(part, kRows - first);
        backend.load_rows(*matrix, first, {bytes.data() + first * columns * size_of(from), from, Shape{part, columns}});
        backend.copy_rows(*same, *matrix, first, part);
      }
      for (const auto& each : {matrix.get(), same.get()}) {
        std::vector<std::byte> read(expected.size());
        each->read_rows(0, kRows, read.data());
        EXPECT_EQ(read, expected) << name << ", " << columns << " columns";
      }
    });
  }
}

constexpr Types kTypes[] = {
    {DType::kBFloat16, DType::kBFloat16}, {DType::kBFloat16, DType::kFloat16}, {DType::kBFloat16, DType::kFloat32},
    {DType::kFloat16, DType::kBFloat16},  {DType::kFloat16, DType::kFloat16},  {DType::kFloat16, DType::kFloat32},
    {DType::kFloat32, DType::kBFloat16},  {DType::kFloat32, DType::kFloat16},  {DType::kFloat32, DType::kFloat32}};
INSTANTIATE_TEST_SUITE_P(DTypes, PackTest, testing::ValuesIn(kTypes), [](const auto& info) {
  return std::string(torch_name(info.param.from)) + "_to_" + std::string(torch_name(info.param.to));
});

class MatrixTest : public testing::TestWithParam<DType> {};

TEST_P(MatrixTest, StorageIsExchanged) {
  CpuBackend& backend = backend_of("", 2);
  const auto bytes = random_bytes(2 * 20 * 12 * dtype_size(GetParam()), 7);
  const auto* second = bytes.data() + bytes.size() / 2;
  const auto a = backend.make_matrix(20, 12, GetParam()).value(), b = backend.make_matrix(20, 12, GetParam()).value();
  backend.load_rows(*a, 0, {bytes.data(), GetParam(), Shape{20, 12}});
  backend.load_rows(*b, 0, {second, GetParam(), Shape{20, 12}});
  a->swap_storage(*b);
  std::vector<std::byte> read(bytes.size() / 2);
  a->read_rows(0, 20, read.data());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), second));
  b->read_rows(0, 20, read.data());
  EXPECT_TRUE(std::equal(read.begin(), read.end(), bytes.begin()));
  const auto other = backend.make_matrix(20, 13, GetParam()).value();
  EXPECT_ANY_THROW(a->swap_storage(*other));
}

TEST_P(MatrixTest, ElementsAreWrittenWhereTheLayoutSays) {
  const auto size = static_cast<size_t>(dtype_size(GetParam()));
  constexpr int64_t kRows = 300, kColumns = 50;
  for_every_backend([&](CpuBackend& backend, const std::string& name) {
    const auto bytes = random_bytes(kRows * kColumns * dtype_size(GetParam()), 8);
    auto expected = bytes;
    const auto matrix = backend.make_matrix(kRows, kColumns, GetParam()).value();
    backend.load_rows(*matrix, 0, {bytes.data(), GetParam(), Shape{kRows, kColumns}});
    const int64_t base = matrix->row_layout(18).start;
    std::vector<uint32_t> positions;
    std::vector<std::byte> values;
    for (int64_t row = 18; row < kRows; ++row)
      for (int64_t k = row % 3; k < kColumns; k += 3) {
        positions.push_back(static_cast<uint32_t>(matrix->row_layout(row).position(k) - base));
        for (size_t b = 0; b < size; ++b) {
          values.push_back(static_cast<std::byte>(7 * positions.size() + b));
          expected[static_cast<size_t>(row * kColumns + k) * size + b] = values.back();
        }
      }
    backend.write_elements(std::array{ElementWrites{matrix.get(), base, positions, values.data()}, ElementWrites{}});
    std::vector<std::byte> read(bytes.size());
    matrix->read_rows(0, kRows, read.data());
    EXPECT_EQ(read, expected) << name;
  });
}

TEST_P(MatrixTest, DigestsTellBitsApartAndNothingElse) {
  CpuBackend& backend = backend_of("", 2);
  constexpr int64_t kColumns = 11;
  const auto size = static_cast<size_t>(dtype_size(GetParam()));
  auto bytes = random_bytes(40 * kColumns * dtype_size(GetParam()), 9);
  const auto load = [&](Matrix& matrix, int64_t first, int64_t count) {
    backend.load_rows(
        matrix, 0, {bytes.data() + static_cast<size_t>(first * kColumns) * size, GetParam(), Shape{count, kColumns}});
  };
  const auto whole = backend.make_matrix(40, kColumns, GetParam()).value();
  const auto piece = backend.make_matrix(48, kColumns, GetParam()).value();
  load(*whole, 0, 40);
  const Hash128 digest = backend.digest(*whole, 0, 40, {});
  load(*piece, 0, 40);
  EXPECT_EQ(backend.digest(*piece, 0, 40, {}), digest);
  EXPECT_EQ(backend.digest(*whole, 16, 24, backend.digest(*whole, 0, 16, {})), digest);
  load(*piece, 16, 24);  // over rows that were longer: what lies behind them has no say
  EXPECT_EQ(backend.digest(*piece, 0, 24, backend.digest(*whole, 0, 16, {})), digest);
  for (const size_t at : {size_t{0}, size_t{16 * kColumns} * size, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    load(*whole, 0, 40);
    EXPECT_NE(backend.digest(*whole, 0, 40, {}), digest) << at;
    bytes[at] ^= std::byte{1};
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, MatrixTest, testing::ValuesIn(kServedTypes),
                         [](const auto& info) { return std::string(torch_name(info.param)); });

}  // namespace
}  // namespace unspool::cpu
