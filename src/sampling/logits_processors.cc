#include "sampling/logits_processors.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool has_penalty(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.frequency_penalty != 0.0f || params.presence_penalty != 0.0f;
}

bool below_min_tokens(const SamplingParams& params, const TokenHistory& history) {
  return static_cast<int64_t>(history.output.size()) < params.min_tokens;
}

bool in_row(int32_t id, std::span<const float> row) {
  return id >= 0 && static_cast<size_t>(id) < row.size();
}

void bar(int32_t id, std::span<float> row) {
  if (in_row(id, row)) row[id] = -kInfinity;
}

// Every id that would end the sequence, ignore_eos or not: what min_tokens promises is a length.
std::vector<int32_t> stop_tokens(const SamplingParams& params) {
  std::vector<int32_t> ids = params.extra_eos_token_ids;
  ids.insert(ids.end(), params.stop_token_ids.begin(), params.stop_token_ids.end());
  if (params.eos_token_id) ids.push_back(*params.eos_token_id);
  return ids;
}

void bar_stop_tokens(const SamplingParams& params, std::span<float> row, bool masked) {
  const std::vector<int32_t> ids = stop_tokens(params);
  std::vector<std::pair<int32_t, float>> before;
  for (const int32_t id : ids) {
    if (masked && in_row(id, row)) before.emplace_back(id, row[id]);
    bar(id, row);
  }
  const auto is_barred = [](float x) { return x == -kInfinity; };
  if (!masked || !std::all_of(row.begin(), row.end(), is_barred)) return;
  for (auto at = before.rbegin(); at != before.rend(); ++at) row[at->first] = at->second;  // an id may be there twice
}

// A word's last token is barred where the output ends in the tokens before it. The prompt does not count.
void bar_bad_words(const SamplingParams& params, const TokenHistory& history, std::span<float> row) {
  for (const std::vector<int32_t>& word : params.bad_words_token_ids) {
    if (word.empty() || word.size() - 1 > history.output.size()) continue;
    const size_t prefix = word.size() - 1;
    if (std::equal(word.begin(), word.end() - 1, history.output.end() - static_cast<std::ptrdiff_t>(prefix))) {
      bar(word.back(), row);
    }
  }
}

}  // namespace

bool LogitsProcessors::needed(const SamplingParams& params, const TokenHistory& history) {
  return params.allowed_token_ids.has_value() || !params.logit_bias.empty() || below_min_tokens(params, history) ||
         has_penalty(params) || !params.bad_words_token_ids.empty();
}

void LogitsProcessors::apply(const SamplingParams& params, const TokenHistory& history, std::span<const float> logits,
                             std::span<float> row, bool masked) {
  if (params.allowed_token_ids) {
    std::fill(row.begin(), row.end(), -kInfinity);
    for (const int32_t id : *params.allowed_token_ids) {
      if (in_row(id, row)) row[id] = logits[id];
    }
  } else {
    std::copy(logits.begin(), logits.end(), row.begin());
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_row(id, row)) row[id] += bias;
  }
  if (below_min_tokens(params, history)) bar_stop_tokens(params, row, masked);
  if (has_penalty(params)) apply_penalties(params, history, row);
  bar_bad_words(params, history, row);
}

void LogitsProcessors::count(int32_t id, int32_t by) {
  if (id < 0 || static_cast<size_t>(id) >= counts_.size()) return;
  if (counts_[id] == 0) {
    counts_[id] = 1;
    seen_.push_back(id);
  }
  counts_[id] += by;
}

void LogitsProcessors::apply_penalties(const SamplingParams& params, const TokenHistory& history,
                                       std::span<float> row) {
  counts_.resize(row.size());
  seen_.clear();
  if (params.repetition_penalty != 1.0f) {  // the others look at the output alone
    for (const int32_t id : history.prompt) count(id, 0);
  }
  for (const int32_t id : history.output) count(id, 1);
  for (const int32_t id : seen_) {
    const int32_t in_output = counts_[id] - 1;
    counts_[id] = 0;
    float x = row[id];
    if (params.repetition_penalty != 1.0f) {
      x = x > 0.0f ? x / params.repetition_penalty : x * params.repetition_penalty;
    }
    if (in_output > 0) {
      x -= params.frequency_penalty * static_cast<float>(in_output);
      x -= params.presence_penalty;
    }
    row[id] = x;
  }
}

}  // namespace unspool
