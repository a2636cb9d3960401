// What one step computes, in plain integers. The scheduler makes it, the runner carries it out; it names no tensor.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace unspool {

// Tokens [start, start + token_ids.size()) of one sequence. Its keys and values of positions below `start` are in the
// cache.
struct ScheduledSequence {
  int64_t sequence_id = 0;
  int start = 0;
  std::vector<int32_t> token_ids;
  std::vector<int32_t>
      block_table;  // block b holds positions [b * block_size, (b + 1) * block_size); covers all the above
  // Rows (offsets into token_ids, ascending) whose logits are wanted.
  std::vector<int32_t> logits_rows;
};

struct StepPlan {
  // Handed out in this step, and not written whole in it: zeroed before anything is written (numerics.md, section 3).
  std::vector<int32_t> blocks_to_zero;
  std::vector<std::pair<int32_t, int32_t>> blocks_to_copy;  // (from, to): the partial block of forked samples
  std::vector<ScheduledSequence> sequences;

  int num_tokens() const {
    int total = 0;
    for (const auto& s : sequences) total += static_cast<int>(s.token_ids.size());
    return total;
  }
  int num_logits_rows() const {
    int total = 0;
    for (const auto& s : sequences) total += static_cast<int>(s.logits_rows.size());
    return total;
  }
};

}  // namespace unspool
