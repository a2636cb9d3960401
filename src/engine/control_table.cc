// The table of engine_state.h: a row a command, a column a situation, in the order of their enums.
#include <array>
#include <string_view>

#include "engine/engine_state.h"

namespace unspool {

namespace {

// An outcome, and after a dash the situation it leads to; without one it stays.
//   ok done, dr done once drained, -- nothing to do, wt waits, cf conflict, in internal, un unavailable
// clang-format off
constexpr std::array<std::string_view, kNumCommands> kTable = {
    // aw  pn    pa    dr    di    uo    uk    uw    ux    ka    kd    w1    w2    a1    a2    fa
    "ok-pn ok    ok-pn ok-pn ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // pause mode=abort
    "dr-pn dr    dr-pn dr-pn ok    dr    ok    dr    ok    ok    ok    ok    ok    ok    ok    un   ",  // pause mode=wait
    "ok-pa ok-pa ok    ok-pa ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // pause mode=keep
    "--    ok-aw ok-aw ok-aw ok    ok    cf    ok    cf    cf    cf    cf    cf    cf    cf    un   ",  // resume
    "ok-pn ok    ok-pn ok-pn ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // sleep level=0
    "ok-a1 ok-a1 ok-a1 ok-a1 ok-a2 ok-a1 ok-a1 ok-a2 ok-a2 ok-a1 ok-a2 ok-a1 ok-a2 --    --    un   ",  // sleep level=1
    "ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a2 ok-a1 ok-a2 --    --    un   ",  // sleep level=2
    "--    ok-aw ok-aw ok-aw ok    ok    ok-uo ok    ok-uw ok-aw ok-di ok-aw ok-di ok-aw ok-di un   ",  // wake_up
    "--    ok-aw ok-aw ok-aw ok    ok    --    ok    --    --    --    ok-aw ok-di ok-ka ok-kd un   ",  // wake_up weights
    "--    ok-aw ok-aw ok-aw ok    ok    ok-uo ok    ok-uw ok-aw ok-di --    --    ok-w1 ok-w2 un   ",  // wake_up kv_cache
    "--    ok-aw ok-aw ok-aw ok    ok    --    ok    --    --    --    --    --    --    --    un   ",  // wake_up scheduling
    "--    --    --    --    --    --    --    --    --    --    --    --    --    --    --    un   ",  // wake_up, unknown tag
    "in    ok-ka ok-ka in    in    in    in    in    in    in    in    in    in    in    in    un   ",  // release_kv_cache_memory
    "ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // reset_prefix_cache
    "ok    ok    ok    ok-pn ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // abort_requests
    "ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    ok    un   ",  // update_weight_version
    "ok    ok    ok    ok    ok-aw cf    cf    cf    cf    ok    ok-ka cf    cf    cf    cf    un   ",  // reload_weights
    "ok    ok    ok    ok    ok    ok    ok    cf    cf    ok    ok    cf    cf    cf    cf    un   ",  // weight_checker checksum
    "ok    ok    ok    ok    ok    cf    cf    cf    cf    ok    ok    cf    cf    cf    cf    un   ",  // weight_checker reset
    "ok-uo ok-uo ok-uo ok-uo ok-uo in    in    in    in    ok-uk ok-uk cf    cf    cf    cf    un   ",  // start_weight_update
    "in    in    in    in    in    ok-uw ok-ux --    --    in    in    cf    cf    cf    cf    un   ",  // update_weights
    "in    in    in    in    in    ok-aw ok-ka ok-aw ok-ka in    in    cf    cf    cf    cf    un   ",  // finish_weight_update
    "--    --    --    --    --    ok-aw ok-ka ok-di ok-kd --    --    --    --    --    --    un   ",  // the loss of an update
    "ok    wt    wt    wt    un    ok    wt    wt    wt    wt    wt    wt    wt    wt    wt    in   ",  // a request
};
// clang-format on

constexpr size_t kCellWidth = 6;
constexpr std::string_view kOutcomes = "ok dr -- wt cf in un ";
constexpr std::string_view kSituations = "aw pn pa dr di uo uk uw ux ka kd w1 w2 a1 a2 fa ";
constexpr size_t kNone = std::string_view::npos;

constexpr size_t index_in(std::string_view names, std::string_view name) {
  const size_t at = names.find(name);
  return at == kNone || at % 3 != 0 ? kNone : at / 3;
}

constexpr std::string_view text_of(size_t command, size_t situation) {
  return kTable[command].substr(situation * kCellWidth, kCellWidth - 1);
}

constexpr size_t next_of(size_t command, size_t situation) {
  const std::string_view text = text_of(command, situation);
  return text[2] == '-' ? index_in(kSituations, text.substr(3)) : situation;
}

constexpr bool well_formed() {
  for (size_t command = 0; command < kNumCommands; ++command) {
    if (kTable[command].size() != kNumSituations * kCellWidth - 1) return false;
    for (size_t situation = 0; situation < kNumSituations; ++situation) {
      if (index_in(kOutcomes, text_of(command, situation).substr(0, 2)) == kNone) return false;
      if (next_of(command, situation) == kNone) return false;
    }
  }
  return true;
}
static_assert(well_formed());

}  // namespace

Cell control_cell(Command command, Situation situation) {
  const auto row = static_cast<size_t>(command);
  const auto column = static_cast<size_t>(situation);
  return {static_cast<Outcome>(index_in(kOutcomes, text_of(row, column).substr(0, 2))),
          static_cast<Situation>(next_of(row, column))};
}

}  // namespace unspool
