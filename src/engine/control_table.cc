// The table of engine_state.h. Rows are commands, columns situations, both in the order of their enums.
#include <array>
#include <initializer_list>

#include "engine/engine_state.h"

namespace unspool {

namespace {

using enum Situation;

constexpr Cell done(Situation next) {
  return {Outcome::kDone, next};
}
constexpr Cell drained(Situation next) {
  return {Outcome::kDrained, next};
}
constexpr Cell nothing(Situation next) {
  return {Outcome::kNothing, next};
}
constexpr Cell waits(Situation next) {
  return {Outcome::kWaits, next};
}
constexpr Cell conflict(Situation next) {
  return {Outcome::kConflict, next};
}
constexpr Cell internal(Situation next) {
  return {Outcome::kInternal, next};
}
constexpr Cell unavailable(Situation next) {
  return {Outcome::kUnavailable, next};
}

using Row = std::array<Cell, kNumSituations>;

// The commands that leave the engine where it is, in every situation alike but for those named.
constexpr Row everywhere() {
  Row row{};
  for (int i = 0; i < kNumSituations; ++i) row[i] = done(static_cast<Situation>(i));
  row[static_cast<int>(kFailed)] = unavailable(kFailed);
  return row;
}

constexpr Row without(Row row, std::initializer_list<Cell> cells) {
  for (const Cell& cell : cells) row[static_cast<int>(cell.next)] = cell;
  return row;
}

constexpr Row where_weights_are_awake() {
  return without(everywhere(),
                 {conflict(kWeightsAsleep1), conflict(kWeightsAsleep2), conflict(kAsleep1), conflict(kAsleep2)});
}

constexpr Row pause(Cell from_awake) {
  Row row = everywhere();
  for (const Situation s : {kAwake, kPausedNew, kPausedAll, kDraining}) row[static_cast<int>(s)] = from_awake;
  return row;
}

constexpr Row pause_wait() {
  Row row = everywhere();
  for (const Situation s : {kAwake, kPausedNew, kPausedAll, kDraining, kUpdateOpen}) {
    row[static_cast<int>(s)] = drained(s == kUpdateOpen ? kUpdateOpen : kPausedNew);
  }
  return row;
}

constexpr Row wake(Cell discarded, Cell update_open, Cell update_open_kv, Cell kv, Cell kv_discarded, Cell weights_1,
                   Cell weights_2, Cell asleep_1, Cell asleep_2) {
  return {nothing(kAwake), done(kAwake), done(kAwake), done(kAwake), discarded, update_open,         update_open_kv, kv,
          kv_discarded,    weights_1,    weights_2,    asleep_1,     asleep_2,  unavailable(kFailed)};
}

constexpr Row sleep(Cell usable, Cell weights_asleep_1) {
  return {usable,
          usable,
          usable,
          usable,
          done(kAsleep2),
          usable,
          usable,
          usable,
          done(kAsleep2),
          weights_asleep_1,
          done(kAsleep2),
          nothing(kAsleep1),
          nothing(kAsleep2),
          unavailable(kFailed)};
}

constexpr Row release_kv_cache() {
  Row row = everywhere();
  for (int i = 0; i < static_cast<int>(kFailed); ++i) row[i] = internal(static_cast<Situation>(i));
  row[static_cast<int>(kPausedNew)] = done(kKvCacheAsleep);
  row[static_cast<int>(kPausedAll)] = done(kKvCacheAsleep);
  return row;
}

constexpr Row reload_weights() {
  Row row = without(where_weights_are_awake(), {conflict(kUpdateOpen), conflict(kUpdateOpenKvAsleep)});
  row[static_cast<int>(kDiscarded)] = done(kAwake);
  row[static_cast<int>(kKvCacheAsleepDiscarded)] = done(kKvCacheAsleep);
  return row;
}

constexpr Row resume() {
  return {nothing(kAwake),
          done(kAwake),
          done(kAwake),
          done(kAwake),
          done(kDiscarded),
          done(kUpdateOpen),
          conflict(kUpdateOpenKvAsleep),
          conflict(kKvCacheAsleep),
          conflict(kKvCacheAsleepDiscarded),
          conflict(kWeightsAsleep1),
          conflict(kWeightsAsleep2),
          conflict(kAsleep1),
          conflict(kAsleep2),
          unavailable(kFailed)};
}

constexpr Row abort_requests() {
  Row row = everywhere();
  row[static_cast<int>(kDraining)] = done(kPausedNew);
  return row;
}

constexpr Row wake_unknown() {
  Row row = everywhere();
  for (int i = 0; i < static_cast<int>(kFailed); ++i) row[i] = nothing(static_cast<Situation>(i));
  return row;
}

constexpr Row request() {
  Row row = everywhere();
  for (int i = static_cast<int>(kPausedNew); i < static_cast<int>(kFailed); ++i) {
    row[i] = waits(static_cast<Situation>(i));
  }
  return without(row, {unavailable(kDiscarded), done(kUpdateOpen), internal(kFailed)});
}

constexpr std::array<Row, kNumCommands> kTable = {
    /* pause mode=abort */ pause(done(kPausedNew)),
    /* pause mode=wait */ pause_wait(),
    /* pause mode=keep */ pause(done(kPausedAll)),
    /* resume */ resume(),
    /* sleep level=0 */ pause(done(kPausedNew)),
    /* sleep level=1 */ sleep(done(kAsleep1), done(kAsleep1)),
    /* sleep level=2 */ sleep(done(kAsleep2), done(kAsleep1)),
    /* wake all */
    wake(done(kDiscarded), done(kUpdateOpen), done(kUpdateOpen), done(kAwake), done(kDiscarded), done(kAwake),
         done(kDiscarded), done(kAwake), done(kDiscarded)),
    /* wake weights */
    wake(done(kDiscarded), done(kUpdateOpen), nothing(kUpdateOpenKvAsleep), nothing(kKvCacheAsleep),
         nothing(kKvCacheAsleepDiscarded), done(kAwake), done(kDiscarded), done(kKvCacheAsleep),
         done(kKvCacheAsleepDiscarded)),
    /* wake kv_cache */
    wake(done(kDiscarded), done(kUpdateOpen), done(kUpdateOpen), done(kAwake), done(kDiscarded),
         nothing(kWeightsAsleep1), nothing(kWeightsAsleep2), done(kWeightsAsleep1), done(kWeightsAsleep2)),
    /* wake scheduling */
    wake(done(kDiscarded), done(kUpdateOpen), nothing(kUpdateOpenKvAsleep), nothing(kKvCacheAsleep),
         nothing(kKvCacheAsleepDiscarded), nothing(kWeightsAsleep1), nothing(kWeightsAsleep2), nothing(kAsleep1),
         nothing(kAsleep2)),
    /* wake unknown tag */ wake_unknown(),
    /* release_kv_cache_memory */ release_kv_cache(),
    /* reset_prefix_cache */ everywhere(),
    /* abort_requests */ abort_requests(),
    /* update_weight_version */ everywhere(),
    /* reload_weights */ reload_weights(),
    /* weight_checker checksum */ where_weights_are_awake(),
    /* weight_checker reset */ where_weights_are_awake(),
    /* a new request */ request(),
};

}  // namespace

Cell control_cell(Command command, Situation situation) {
  return kTable[static_cast<size_t>(command)][static_cast<size_t>(situation)];
}

}  // namespace unspool
