#include "sampling/ranking.h"

#include <algorithm>

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

float ScoredRow::value(int32_t id) const {
  const float x = row->values()[id];
  return cut.keeps(x, id) ? x : -kInfinity;
}

PositionLogprobs Ranker::with_best(const ScoredRow& scored, int32_t token_id, int count) {
  const int64_t wanted = count < 0 ? scored.row->size() : std::min<int64_t>(count, scored.row->size());
  PositionLogprobs result;
  result.reserve(wanted + 1);
  result.push_back(describe(scored, token_id));
  if (wanted == 0) return result;

  const std::vector<Candidate>& order = best(scored, wanted);
  // A rank is the place of the last entry of equal value; only the last value's equals may go on beyond the list.
  const int32_t last_rank = rank(scored, order.back().id);
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && order[end].value == order[i].value) ++end;
    const int32_t shared_rank = end == order.size() ? last_rank : static_cast<int32_t>(end);
    for (; i < end; ++i) {
      if (order[i].id == token_id) continue;
      result.push_back({order[i].id, scored.score(order[i].value), shared_rank});
    }
  }
  return result;
}

PositionLogprobs Ranker::with_ids(const ScoredRow& scored, int32_t token_id, std::span<const int32_t> ids) {
  PositionLogprobs result;
  result.reserve(ids.size() + 1);
  result.push_back(describe(scored, token_id));
  for (const int32_t id : ids) {
    if (id < 0 || id >= scored.row->size()) continue;
    const auto same = [id](const TokenLogprob& entry) { return entry.token_id == id; };
    if (std::none_of(result.begin(), result.end(), same)) result.push_back(describe(scored, id));
  }
  return result;
}

TokenLogprob Ranker::describe(const ScoredRow& scored, int32_t id) const {
  return {id, scored.score(scored.value(id)), rank(scored, id)};
}

int32_t Ranker::rank(const ScoredRow& scored, int32_t id) const {
  const std::span<const float> values = scored.row->values();
  const float value = scored.value(id);
  if (value == -kInfinity) return static_cast<int32_t>(values.size());
  auto count = static_cast<int32_t>(kernels_.count_at_least(values.data(), scored.row->size(), value));
  if (value == scored.cut.last.value) {  // its equals beyond the cut are -inf as scored
    for (int64_t i = int64_t{scored.cut.last.id} + 1; i < scored.row->size(); ++i) count -= values[i] == value;
  }
  return count;
}

const std::vector<Candidate>& Ranker::best(const ScoredRow& scored, int64_t count) {
  std::vector<Candidate>& order = selector_.first(*scored.row, count);
  std::erase_if(order, [&](const Candidate& c) { return !scored.cut.keeps(c.value, c.id); });
  std::sort(order.begin(), order.end(), before);
  for (int32_t id = 0; static_cast<int64_t>(order.size()) < count; ++id) {
    if (scored.value(id) == -kInfinity) order.push_back({-kInfinity, id});
  }
  return order;
}

}  // namespace unspool
