#include "engine/experts_log.h"

#include <algorithm>

namespace unspool {

void ExpertsLog::add_prompt(Request& request, const ScheduledSequence& computed) const {
  if (shape_.layers == 0) return;
  const int last = request.prompt_length(), first = std::min(request.params().routed_experts_prompt_start, last);
  request.prompt_experts.resize(static_cast<size_t>(last - first) * shape_.row_bytes());
  executor_.read_routed_experts(computed.block_table, first, last, request.prompt_experts.data());
}

void ExpertsLog::add_output(Sequence& sequence, const ScheduledSequence& computed) const {
  if (shape_.layers == 0) return;
  const size_t known = sequence.output_experts.size() / shape_.row_bytes();
  const int first = sequence.request.prompt_length() + static_cast<int>(known);
  const int last = computed.start + static_cast<int>(computed.token_ids.size());
  if (last <= first) return;
  sequence.output_experts.resize((known + static_cast<size_t>(last - first)) * shape_.row_bytes());
  executor_.read_routed_experts(computed.block_table, first, last,
                                sequence.output_experts.data() + known * shape_.row_bytes());
}

std::optional<RoutedExperts> ExpertsLog::of(const Sequence& sequence) const {
  if (shape_.layers == 0 || sequence.output_token_ids.empty()) return std::nullopt;
  RoutedExperts routed{.shape = shape_, .ids = sequence.request.prompt_experts};
  routed.ids.insert(routed.ids.end(), sequence.output_experts.begin(), sequence.output_experts.end());
  return routed;
}

}  // namespace unspool
