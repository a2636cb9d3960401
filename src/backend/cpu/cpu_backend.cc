#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/isa.h"
#include "backend/cpu/kv_storage.h"
#include "backend/cpu/packed_input.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/product_tiles.h"
#include "base/check.h"

namespace unspool::cpu {
namespace {

// Elements that a thread writes at once: some tens of microseconds of cache misses.
constexpr size_t kWritesAPiece = 4096;

}  // namespace

CpuBackend::CpuBackend(ThreadPool& pool, const KernelTable& kernels)
    : pool_(pool), kernels_(kernels), scratch_(static_cast<size_t>(pool.size())) {}

Result<std::unique_ptr<CpuBackend>> CpuBackend::create(ThreadPool& pool, std::string_view forced_isa) {
  UNSPOOL_ASSIGN(const KernelTable* kernels, select_kernels(forced_isa));
  return std::unique_ptr<CpuBackend>(new CpuBackend(pool, *kernels));
}

Result<std::unique_ptr<Matrix>> CpuBackend::make_matrix(int64_t rows, int64_t columns, DType dtype) {
  UNSPOOL_ASSIGN(auto matrix, PackedMatrix::create(rows, columns, dtype));
  return std::unique_ptr<Matrix>(std::move(matrix));
}

void CpuBackend::load_rows(Matrix& matrix, int64_t first_row, const TensorView& source) {
  auto& packed = static_cast<PackedMatrix&>(matrix);
  UNSPOOL_CHECK(
      source.shape.rank() == 2 && source.shape[1] == packed.columns() && first_row + source.shape[0] <= packed.rows(),
      "rows {} and on of [{}, {}] from {}", first_row, packed.rows(), packed.columns(), source.shape.to_string());
  const int64_t first_panel = first_row / kPanel, last_panel = (first_row + source.shape[0] - 1) / kPanel;
  pool_.parallel_for(last_panel - first_panel + 1,
                     [&](int64_t i, int) { packed.pack_panel(kernels_, first_panel + i, first_row, source); });
}

void CpuBackend::copy_rows(Matrix& to, const Matrix& from, int64_t first, int64_t count) {
  auto& packed = static_cast<PackedMatrix&>(to);
  const auto& source = static_cast<const PackedMatrix&>(from);
  UNSPOOL_CHECK(packed.rows() == source.rows() && packed.columns() == source.columns() &&
                    packed.stored() == source.stored() && first >= 0 && first + count <= packed.rows(),
                "rows {} and on, {} of [{}, {}] from [{}, {}]", first, count, packed.rows(), packed.columns(),
                source.rows(), source.columns());
  const int64_t first_panel = first / kPanel, end_panel = (first + count + kPanel - 1) / kPanel;
  pool_.parallel_for(end_panel - first_panel,
                     [&](int64_t i, int) { packed.copy_panel(first_panel + i, source, first, first + count); });
}

void CpuBackend::write_elements(std::span<const ElementWrites> writes) {
  struct Piece {
    const ElementWrites* writes;
    size_t begin;
  };
  std::vector<Piece> pieces;
  for (const ElementWrites& each : writes)
    for (size_t begin = 0; begin < each.positions.size(); begin += kWritesAPiece) pieces.push_back({&each, begin});
  pool_.parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t i, int) {
    const auto& [each, begin] = pieces[static_cast<size_t>(i)];
    const auto positions = each->positions.subspan(begin, std::min(kWritesAPiece, each->positions.size() - begin));
    const auto write = [&](auto element) {
      auto* to = reinterpret_cast<decltype(element)*>(each->matrix->storage().data()) + each->base;
      const auto* values = static_cast<const decltype(element)*>(each->values) + begin;
      for (size_t k = 0; k < positions.size(); ++k) to[positions[k]] = values[k];
    };
    if (dtype_size(each->matrix->dtype()) == 2)
      write(uint16_t{});
    else
      write(uint32_t{});
  });
}

Hash128 CpuBackend::digest(const Matrix& matrix, int64_t first, int64_t count, Hash128 before) {
  const auto& packed = static_cast<const PackedMatrix&>(matrix);
  static_assert(kRowGroup == kPanel);
  UNSPOOL_CHECK(first >= 0 && first % kPanel == 0 && first + count <= packed.rows(), "rows {} and on, {} of {}", first,
                count, packed.rows());
  std::vector<Hash128> hashes(static_cast<size_t>((count + kPanel - 1) / kPanel));
  pool_.parallel_for(static_cast<int64_t>(hashes.size()), [&](int64_t i, int) {
    hashes[static_cast<size_t>(i)] = packed.hash_panel(first / kPanel + i, first + count);
  });
  for (const Hash128& hash : hashes) {
    const Hash128 both[2] = {before, hash};
    before = hash128(both, sizeof both, 0);
  }
  return before;
}

Result<std::unique_ptr<ProductInput>> CpuBackend::make_product_input(int64_t max_rows, int64_t columns, DType weights,
                                                                     MatmulPrecision precision) {
  UNSPOOL_ASSIGN(auto input, PackedInput::create(max_rows, columns, weights, precision));
  return std::unique_ptr<ProductInput>(std::move(input));
}

Result<std::unique_ptr<KvCache>> CpuBackend::make_kv_cache(const KvCacheShape& shape) {
  UNSPOOL_ASSIGN(auto storage, KvStorage::create(shape));
  return std::unique_ptr<KvCache>(std::move(storage));
}

// A matrix's panels, cut into what a thread takes at once: the first of them in long runs, the others in short ones.
struct CpuBackend::Runs {
  int64_t panels;
  int64_t length;
  int64_t in_long = panels;  // a multiple of length, if not all
  int64_t short_length = length;

  int64_t long_count() const { return (in_long + length - 1) / length; }
  int64_t count() const { return long_count() + (panels - in_long + short_length - 1) / short_length; }
  int64_t first(int64_t run) const {
    return std::min(panels, run < long_count() ? run * length : in_long + (run - long_count()) * short_length);
  }
};

// f(tile) for tiles that cover rows x panels. A task is a run of panels for the rows of a tile, kTilePanels at a time,
// and then done(first row, rows, run). The rows of one run follow each other, so that its weights are read from memory
// once.
template <class F, class Done>
void CpuBackend::for_runs(int64_t rows, const Runs& runs, F&& f, Done&& done) {
  const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows, count = runs.count();
  pool_.parallel_for(count * row_tiles, [&](int64_t i, int) {
    const int64_t index = i / row_tiles, row = i % row_tiles * kTileRows, tile_rows = std::min(kTileRows, rows - row);
    const int64_t end = runs.first(index + 1);
    // Threads that are all as fast take tasks by turns: this one comes to that run next, if it is another.
    const int64_t next = (i + pool_.size()) / row_tiles;
    const int64_t next_run = next == index || next >= count ? -1 : runs.first(next);
    for (int64_t panel = runs.first(index); panel < end; panel += kTilePanels) {
      const int64_t after = panel + kTilePanels;
      f(Tile{row, tile_rows, panel, std::min(kTilePanels, end - panel), after < end ? after : next_run});
    }
    done(row, tile_rows, index);
  });
}

// Where there are only a few rows, memory is what is waited for: a task is then a long run of panels, which are read
// front to back.
template <class F>
void CpuBackend::for_tiles(int64_t rows, int64_t panels, F&& f) {
  const int64_t row_tiles = (rows + kTileRows - 1) / kTileRows, threads = pool_.size();
  Runs runs{.panels = panels, .length = kTilePanels};
  if (rows <= kernels_.max_rows) {
    // As many runs for every thread: of three for two threads, one would wait for the last.
    const int64_t share = (panels + threads - 1) / threads, a_thread = (share + kLongestRun - 1) / kLongestRun;
    runs.length = (share + a_thread - 1) / a_thread;
  } else if (row_tiles * (panels / kTilePanels) < kMinTilesAThread * threads) {
    runs.in_long = panels / (threads * kTilePanels) * (threads * kTilePanels);
    runs.short_length = kNarrowTilePanels;
  }
  for_runs(rows, runs, f, [](int64_t, int64_t, int64_t) {});
}

void CpuBackend::embed(const Matrix& table, std::span<const int32_t> ids, float scale, float* y) {
  const auto& packed = static_cast<const PackedMatrix&>(table);
  for_rows(static_cast<int64_t>(ids.size()), [&](int64_t r) {
    UNSPOOL_CHECK(ids[static_cast<size_t>(r)] >= 0 && ids[static_cast<size_t>(r)] < packed.rows(), "token {} of {}",
                  ids[static_cast<size_t>(r)], packed.rows());
    float* row = y + r * packed.columns();
    packed.read_row(ids[static_cast<size_t>(r)], row);
    if (scale == 1.0f) return;
    for (int64_t j = 0; j < packed.columns(); ++j) row[j] = row[j] * scale;
  });
}

void CpuBackend::prepare(const float* x, int64_t rows, int64_t stride, ProductInput& y) {
  auto& input = static_cast<PackedInput&>(y);
  input.set_rows(rows);
  for_rows(rows, [&](int64_t r) { input.put(kernels_, r, 0, x + r * stride, input.columns()); });
}

void CpuBackend::rms_norm(const float* x, int64_t rows, const RmsNorm& norm, ProductInput& y) {
  auto& input = static_cast<PackedInput&>(y);
  const int64_t n = input.columns();
  UNSPOOL_CHECK(static_cast<int64_t>(norm.weight.size()) == n, "a norm of {} over {} features", norm.weight.size(), n);
  input.set_rows(rows);
  for_rows(rows, [&](int64_t r) {
    thread_local std::vector<float> normed;
    normed.resize(static_cast<size_t>(n));
    kernels_.rms_norm(x + r * n, norm.weight.data(), norm.offset, norm.eps, n, normed.data());
    input.put(kernels_, r, 0, normed.data(), n);
  });
}

void CpuBackend::add_rms_norm(const float* x, int64_t rows, const RmsNorm& norm, float* y) {
  const auto n = static_cast<int64_t>(norm.weight.size());
  for_rows(rows, [&](int64_t r) {
    thread_local std::vector<float> normed;
    normed.resize(static_cast<size_t>(n));
    kernels_.rms_norm(x + r * n, norm.weight.data(), norm.offset, norm.eps, n, normed.data());
    for (int64_t j = 0; j < n; ++j) y[r * n + j] = y[r * n + j] + normed[static_cast<size_t>(j)];
  });
}

void CpuBackend::tile_product(const PackedInput& x, const PackedMatrix& w, const Tile& tile, float* out, float* low,
                              const void* ahead) const {
  const void* panels[kTilePanels];
  for (int64_t p = 0; p < tile.panels; ++p) panels[p] = w.panel(tile.panel + p);
  ProductArgs args{.a = x.row(tile.row),
                   .a_stride = x.row_steps(w.stored()),
                   .rows = tile.rows,
                   .b = panels,
                   .b_stride = 1,
                   .steps = w.steps(),
                   .steps_per_chunk = w.steps(),
                   .next_bytes = (tile.panels - 1) * w.panel_bytes(),
                   .ahead = x.split() ? nullptr : ahead,
                   .panels = static_cast<int>(tile.panels),
                   .c = out,
                   .c_stride = kTileStride};
  const bool widens = w.stored() == Stored::kBf16 && !x.pairs();
  const auto product = widens ? kernels_.wide_product : kernels_.product[static_cast<int>(w.stored())];
  product(args);
  if (!x.split()) return;
  args.a = x.low_row(tile.row);
  args.ahead = ahead;
  args.c = low;
  product(args);
  for (int64_t i = 0; i < tile.rows * kTileStride; ++i) out[i] += low[i];
}

namespace {

void check_product(const PackedInput& x, const PackedMatrix& w) {
  UNSPOOL_CHECK(x.columns() == w.columns() && (!x.pairs() || w.stored() == Stored::kBf16),
                "an input of {} columns for a matrix of {}", x.columns(), w.columns());
}

}  // namespace

void CpuBackend::linear(const ProductInput& x, const Matrix& w, const float* bias, bool accumulate, float* y,
                        int64_t stride) {
  const auto& input = static_cast<const PackedInput&>(x);
  const auto& matrix = static_cast<const PackedMatrix&>(w);
  check_product(input, matrix);
  for_tiles(input.rows(), matrix.panels(), [&](const Tile& tile) {
    linear_tile(input, matrix, tile, {bias, accumulate, y, stride}, matrix.panel_or_null(tile.next_panel));
  });
}

void CpuBackend::linear_tile(const PackedInput& x, const PackedMatrix& w, const Tile& tile, const Output& to,
                             const void* ahead) const {
  alignas(64) float out[kTileRows * kTileStride];
  alignas(64) float low[kTileRows * kTileStride];
  tile_product(x, w, tile, out, low, ahead);
  kernels_.epilogue({.tile = out,
                     .tile_stride = kTileStride,
                     .rows = tile.rows,
                     .columns = tile.columns(w.rows()),
                     .bias = to.bias == nullptr ? nullptr : to.bias + tile.column(),
                     .y = to.y + tile.row * to.stride + tile.column(),
                     .y_stride = to.stride,
                     .add_to_y = to.accumulate});
}

// Tasks are whole blocks of the vocabulary, whose stats are taken while they are in the core's own cache.
void CpuBackend::logits(const ProductInput& x, const Matrix& w, float softcap, float* y, BlockStat* blocks) {
  const auto& input = static_cast<const PackedInput&>(x);
  const auto& matrix = static_cast<const PackedMatrix&>(w);
  check_product(input, matrix);
  const int64_t columns = matrix.rows(), row_blocks = vocab_blocks(columns);
  for_runs(
      input.rows(), Runs{.panels = matrix.panels(), .length = kVocabBlock / kPanel},
      [&](const Tile& tile) {
        linear_tile(input, matrix, tile, {nullptr, false, y, columns}, matrix.panel_or_null(tile.next_panel));
      },
      [&](int64_t first_row, int64_t rows, int64_t block) {
        const int64_t first = block * kVocabBlock, n = std::min<int64_t>(kVocabBlock, columns - first);
        for (int64_t r = first_row; r < first_row + rows; ++r) {
          float* values = y + r * columns + first;
          if (softcap != 0.0f) kernels_.softcap(values, softcap, n);
          kernels_.vocab.block_stats(values, n, blocks + r * row_blocks + block);
        }
      });
}

void CpuBackend::gated(const ProductInput& x, const GatedArgs& args, ProductInput& y) {
  const auto& input = static_cast<const PackedInput&>(x);
  const auto& gates = static_cast<const PackedMatrix&>(*args.gate);
  auto& output = static_cast<PackedInput&>(y);
  UNSPOOL_CHECK(output.columns() <= gates.rows() && args.up_row + output.columns() <= args.up->rows(),
                "a gate of {} rows, {} up from {} on, {} out", gates.rows(), args.up->rows(), args.up_row,
                output.columns());
  output.set_rows(input.rows());
  for_tiles(input.rows(), (output.columns() + kPanel - 1) / kPanel,
            [&](const Tile& tile) { gated_tile(input, args, tile, gates.panel_or_null(tile.next_panel), output); });
}

void CpuBackend::gated_tile(const PackedInput& x, const GatedArgs& args, const Tile& tile, const void* ahead,
                            PackedInput& y) const {
  alignas(64) float g[kTileRows * kTileStride];
  alignas(64) float u[kTileRows * kTileStride];
  alignas(64) float low[kTileRows * kTileStride];
  const auto& gates = static_cast<const PackedMatrix&>(*args.gate);
  const auto& ups = static_cast<const PackedMatrix&>(*args.up);
  const int64_t column = tile.column(), columns = tile.columns(y.columns());
  Tile up_tile = tile;
  up_tile.panel += args.up_row / kPanel;
  tile_product(x, gates, tile, g, low, ups.panel(up_tile.panel));
  tile_product(x, ups, up_tile, u, low, ahead);
  if (args.up_row % kPanel != 0) shift_tile(x, ups, up_tile, columns, args.up_row % kPanel, u);
  const auto mul = args.activation == Activation::kSilu ? kernels_.silu_mul : kernels_.gelu_tanh_mul;
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* row = g + r * kTileStride;
    mul(row, u + r * kTileStride, args.gate_bias == nullptr ? nullptr : args.gate_bias + column,
        args.up_bias == nullptr ? nullptr : args.up_bias + column, columns, row);
    y.put(kernels_, tile.row + r, column, row, columns);
  }
}

// Where a matrix's rows from a panel's row `shift` on are wanted (the tile starts at that panel): moves them to the
// front, with those of the panel behind the tile.
void CpuBackend::shift_tile(const PackedInput& x, const PackedMatrix& w, const Tile& tile, int64_t columns,
                            int64_t shift, float* out) const {
  alignas(64) float more[kTileRows * kTileStride];
  alignas(64) float low[kTileRows * kTileStride];
  const int64_t width = tile.panels * kPanel;
  if (shift + columns > width) {
    const Tile behind{tile.row, tile.rows, tile.panel + tile.panels, 1, -1};
    tile_product(x, w, behind, more, low, nullptr);
  }
  for (int64_t r = 0; r < tile.rows; ++r)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t from = shift + j;
      out[r * kTileStride + j] = from < width ? out[r * kTileStride + from] : more[r * kTileStride + from - width];
    }
}

}  // namespace unspool::cpu
