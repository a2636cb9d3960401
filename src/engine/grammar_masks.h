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
  explicit GrammarMasks(int threads);

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
  std::shared_ptr<Batch> batch_;             // begun
  std::unique_ptr<WatchedWorkers> workers_;  // from the first constrained row on
};

}  // namespace unspool
