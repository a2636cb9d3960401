#include "grammar/constraint.h"

#include <algorithm>
#include <utility>

namespace unspool {

Constraint::Constraint(std::shared_ptr<const CompiledGrammar> grammar, std::vector<int32_t> stop_token_ids,
                       std::vector<ReasoningEnd> reasoning_ends, int vocab_size)
    : grammar_(std::move(grammar)),
      stop_token_ids_(std::move(stop_token_ids)),
      reasoning_ends_(std::move(reasoning_ends)),
      mask_((static_cast<size_t>(vocab_size) + 31) / 32) {}

Status Constraint::advance(std::span<const int32_t> token_ids) {
  if (!matcher_) {
    UNSPOOL_ASSIGN(matcher_, grammar_->matcher(stop_token_ids_));
  }
  bound_ = false;
  for (const int32_t token_id : token_ids) {
    if (!reasoning_ends_.empty()) {
      const auto end = std::find_if(reasoning_ends_.begin(), reasoning_ends_.end(),
                                    [&](const ReasoningEnd& e) { return e.token_id == token_id; });
      if (end == reasoning_ends_.end()) continue;
      const bool is_content = end->is_content;
      reasoning_ends_.clear();
      // Under a grammar without calls the model may have begun one all the same: what follows it is bound.
      if (is_content) (void)matcher_->accept(token_id);
      continue;
    }
    if (matcher_->terminated()) break;
    if (!matcher_->accept(token_id)) return internal_error("a token does not follow its grammar");
  }
  if (!reasoning_ends_.empty() || matcher_->terminated()) return {};
  if (!matcher_->fill_mask(mask_)) return internal_error("a grammar gave no mask");
  bound_ = true;
  return {};
}

}  // namespace unspool
