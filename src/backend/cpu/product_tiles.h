// How the CPU backend cuts a product into tasks.
#pragma once

#include <algorithm>

#include "backend/cpu/cpu_backend.h"

namespace unspool::cpu {

// Rows of a product's tile: 16 register tiles of 6, whose 96 x 64 results (24 KB) and inputs stay in the core's own
// cache.
inline constexpr int64_t kTileRows = 96;
// Panels of a tile. Four fill the widest register tile. Where that leaves the threads less than eight tiles each, what
// does not make one more for all of them is in tiles of two, so that none waits long for the last (the narrower
// register tile still has 12 chains to hide the latency of one).
inline constexpr int64_t kTilePanels = 4, kNarrowTilePanels = 2, kMinTilesAThread = 8;
inline constexpr int64_t kTileStride = kTilePanels * kPanel;
// Panels of a run for a few rows, at most: long enough to read at memory's speed, short enough to share out the head
// evenly.
inline constexpr int64_t kLongestRun = 32;

struct CpuBackend::Tile {
  int64_t row, rows;
  int64_t panel, panels;
  int64_t next_panel;  // of the tile that this thread will probably take next, or -1: the same, or none
  int64_t column() const { return panel * kPanel; }
  int64_t columns(int64_t all) const { return std::min(panels * kPanel, all - column()); }
};

// Where a product's results go.
struct CpuBackend::Output {
  const float* bias;
  bool accumulate;
  float* y;
  int64_t stride;
};

}  // namespace unspool::cpu
