// The masks of a step: each constrained row follows its grammar and asks what may come next.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/constraint.h"
#include "threading/watched_workers.h"

namespace unspool {

class GrammarMasks {
 public:
  // A mask takes some microseconds to some milliseconds. Everybody in the batch waits for it, so what takes much longer
  // must end; a thread that was left behind takes cycles that nobody else wants.
  struct Limits {
    double row_s = 1.0;
    int most_left_behind = 16;
  };
  explicit GrammarMasks(int threads, Limits limits = {1.0, 16});

  struct Row {
    std::shared_ptr<Constraint> constraint;  // shared with a thread that takes too long
    std::vector<int32_t> token_ids;          // drawn since the last time
    std::optional<Error> error;              // out: there is no mask, and the constraint is of no further use
  };
  // Begins with all rows' masks, on other threads. What was begun before and not waited for is forgotten.
  void start(std::span<const Row> rows);
  // Returns when every row, those that were started, has its mask or its error. No row takes longer than the limit,
  // whatever its grammar.
  void finish(std::span<Row> rows);

 private:
  struct Batch;

  int threads_;
  Limits limits_;
  std::shared_ptr<Batch> batch_;             // begun
  std::unique_ptr<WatchedWorkers> workers_;  // from the first constrained row on
};

}  // namespace unspool
