#include "sampling/sampler.h"
#include "sampling/masked_row.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "sampling/draw.h"
#include "sampling/logits_processors.h"
#include "sampling/masked_row.h"
#include "sampling/philox.h"
#include "sampling/ranking.h"
#include "sampling/truncation.h"
#include "sampling/vocab_row.h"
#include "threading/thread_pool.h"

namespace unspool {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool is_processed(LogprobsMode mode) {
  return mode == LogprobsMode::kProcessedLogprobs || mode == LogprobsMode::kProcessedLogits;
}

bool is_logits(LogprobsMode mode) {
  return mode == LogprobsMode::kRawLogits || mode == LogprobsMode::kProcessedLogits;
}

// The log of the mass that truncation kept. Both sums are of exp(x - m) with the same m, since the best candidate is
// always kept, and a sum over fewer entries in the same order is never the larger one; the logs' rounding may be.
float kept_logprob(const VocabKernels& kernels, const VocabRow& row, const Truncation& truncation) {
  if (truncation.cut.keeps_all()) return 0.0f;
  const float kept = LogNormalizer(kernels, truncation.blocks).log_sum();
  return std::min(kept - LogNormalizer(kernels, row.blocks()).log_sum(), 0.0f);
}

}  // namespace

struct Sampler::Scratch {
  explicit Scratch(const VocabKernels& kernels)
      : masked(kernels),
        raw_row(kernels),
        processed_row(kernels),
        truncator(kernels),
        drawer(kernels),
        ranker(kernels) {}

  MaskedRow masked;
  std::vector<float> processed;  // the row after processors and temperature; sized on first use
  VocabRow raw_row;
  VocabRow processed_row;
  LogitsProcessors processors;
  Truncator truncator;
  Drawer drawer;
  Ranker ranker;
};

Sampler::Sampler(const VocabKernels& kernels, int vocab_size) : kernels_(kernels), vocab_size_(vocab_size) {
  UNSPOOL_CHECK(vocab_size > 0, "vocabulary of {}", vocab_size);
}

Sampler::~Sampler() = default;

void Sampler::reserve(int threads) {
  while (static_cast<int>(scratch_.size()) < threads) scratch_.push_back(std::make_unique<Scratch>(kernels_));
}

Sampler::Scratch& Sampler::scratch(int thread, std::span<const float> logits) {
  UNSPOOL_CHECK(thread >= 0 && thread < static_cast<int>(scratch_.size()), "thread {} of {} reserved", thread,
                scratch_.size());
  UNSPOOL_CHECK(static_cast<int64_t>(logits.size()) == vocab_size_, "a row of {}, vocabulary {}", logits.size(),
                vocab_size_);
  return *scratch_[thread];
}

bool Sampler::finite(std::span<const float> values) const {
  return kernels_.no_nan_or_positive_inf(values.data(), static_cast<int64_t>(values.size()));
}

std::span<const float> Sampler::process(const SampleTask& task, Scratch& s) const {
  const SamplingParams& params = *task.params;
  std::span<const float> values = task.logits;
  const TokenHistory history = {task.prompt_token_ids, task.output_token_ids};
  if (LogitsProcessors::needed(params, history)) {
    s.processed.resize(vocab_size_);
    s.processors.apply(params, history, task.logits, s.processed, !task.allowed.empty());
    values = s.processed;
  }
  if (!params.greedy() && params.temperature != 1.0f) {
    s.processed.resize(vocab_size_);
    kernels_.divide(values.data(), vocab_size_, params.temperature, s.processed.data());
    values = s.processed;
  }
  return values;
}

SampleResult Sampler::sample(const SampleTask& asked, int thread) {
  const FloatModeGuard float_mode;
  Scratch& s = scratch(thread, asked.logits);
  const SamplingParams& params = *asked.params;
  SampleResult result;
  result.finite = false;
  SampleTask task = asked;
  const bool masked = !asked.allowed.empty();
  // A grammar's mask comes before everything else, raw log-probs included.
  if (masked) {
    s.masked.reset(asked.allowed, asked.logits, asked.blocks);
    if (!s.masked.logits_finite()) return result;
    task.logits = s.masked.values();
  }
  const auto blocks = [&] { return masked ? s.masked.blocks() : asked.blocks; };
  const std::span<const float> values = process(task, s);
  const bool in_place = values.data() == task.logits.data();
  const bool processed = is_processed(params.logprobs_mode);
  const bool needs_row = !params.greedy() || (params.logprobs && (processed || in_place));
  if (needs_row) s.processed_row.reset(values, in_place ? blocks() : std::span<const BlockStat>());
  const bool values_finite = needs_row ? s.processed_row.finite() : finite(values);
  // Processors may hide what is not finite, so the logits are looked at themselves; a temperature leaves it as it is.
  const bool hidden = LogitsProcessors::needed(params, {task.prompt_token_ids, task.output_token_ids});
  if ((hidden || !values_finite) && !finite(task.logits)) return result;
  result.barred = masked || !in_place;
  if (!values_finite) return result;  // a bias or a small temperature can overflow

  Truncation truncation = {{}, s.processed_row.blocks()};
  if (params.greedy()) {
    const auto best = static_cast<int32_t>(kernels_.argmax(values.data(), vocab_size_));
    if (values[best] == -kInfinity) return result;
    result.token_id = best;
  } else {
    if (s.processed_row.max() == -kInfinity) return result;
    truncation = s.truncator.truncate(s.processed_row, params);
    const double u = uniform(task.seed, task.position, RandomPurpose::kDraw);
    result.token_id = s.drawer.draw(s.processed_row, truncation, u);
    if (params.return_kept_mass) result.kept_logprob = kept_logprob(kernels_, s.processed_row, truncation);
  }
  result.finite = result.token_id >= 0;
  result.barred = result.barred && !result.finite;
  if (!result.finite || !params.logprobs) return result;

  ScoredRow scored = {&s.processed_row, {}, {}, is_logits(params.logprobs_mode)};
  if (processed) {
    scored.cut = truncation.cut;
    scored.normalizer = LogNormalizer(kernels_, truncation.blocks);
  } else {
    if (!in_place) {
      s.raw_row.reset(task.logits, blocks());
      scored.row = &s.raw_row;
    }
    scored.normalizer = LogNormalizer(kernels_, scored.row->blocks());
  }
  result.logprobs = params.logprob_token_ids.empty()
                        ? s.ranker.with_best(scored, result.token_id, *params.logprobs)
                        : s.ranker.with_ids(scored, result.token_id, params.logprob_token_ids);
  return result;
}

PositionLogprobs Sampler::prompt_logprobs(const PromptTask& task, int thread) {
  const FloatModeGuard float_mode;
  Scratch& s = scratch(thread, task.logits);
  UNSPOOL_CHECK(task.token_id >= 0 && task.token_id < vocab_size_, "token {}, vocabulary {}", task.token_id,
                vocab_size_);
  s.raw_row.reset(task.logits, task.blocks);
  if (!s.raw_row.finite() || s.raw_row.max() == -kInfinity) return {};
  const ScoredRow scored = {&s.raw_row, {}, LogNormalizer(kernels_, s.raw_row.blocks()), is_logits(task.mode)};
  return s.ranker.with_best(scored, task.token_id, task.count);
}

}  // namespace unspool
