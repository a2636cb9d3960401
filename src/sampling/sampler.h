// From one row of logits to tokens and log-probs. Pure: the same inputs give the same bits whoever else is in the step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/vocab_kernels.h"
#include "request/outputs.h"
#include "request/sampling_params.h"

namespace unspool {

// One draw from one row. Spans must outlive the call.
struct SampleTask {
  std::span<const float> logits;  // [vocab_size], never written
  const SamplingParams* params = nullptr;
  std::span<const int32_t> prompt_token_ids;
  std::span<const int32_t> output_token_ids;  // drawn so far
  uint64_t seed = 0;                          // of this sample (request seed + sample index)
  int64_t position = 0;  // absolute position of the token to be drawn: prompt length + tokens drawn so far
  std::span<const BlockStat> blocks = {};  // of the logits, where they are known already
  // A bit a token: those whose bit is clear count as -inf; empty: all are allowed.
  std::span<const uint32_t> allowed = {};
};

struct SampleResult {
  int32_t token_id = -1;
  PositionLogprobs logprobs;  // where params->logprobs is set: as outputs.h says
  float kept_logprob = 0.0f;  // where params->return_kept_mass is set
  bool finite = true;         // false: the row held a NaN or +inf, or nothing was left to draw; the request must fail
  bool barred = false;        // not finite, and not by the model: by what the request does to its logits
};

// One prompt position: the value and rank of the token that follows, and the best `count` (-1: all).
struct PromptTask {
  std::span<const float> logits;
  int32_t token_id = 0;
  int count = 0;
  LogprobsMode mode = LogprobsMode::kRawLogprobs;
  std::span<const BlockStat> blocks = {};  // as SampleTask's
};

// What params->logprobs_mode means here (processed: the values that the draw is made from). Greedy rows have neither
// temperature nor truncation, so their processed values are those after the logits processors. A prompt's log-probs
// have no processing at all, so processed is raw.
class Sampler {
 public:
  explicit Sampler(const VocabKernels& kernels, int vocab_size);
  ~Sampler();
  // Once, before the first row. Afterwards calls with different `thread` in [0, threads) may run at the same time.
  void reserve(int threads);
  SampleResult sample(const SampleTask& task, int thread);
  // Empty where the row is not finite.
  PositionLogprobs prompt_logprobs(const PromptTask& task, int thread);

 private:
  struct Scratch;
  Scratch& scratch(int thread, std::span<const float> logits);
  bool finite(std::span<const float> values) const;
  // The row after logits processors and temperature: the task's own logits where nothing changes them.
  std::span<const float> process(const SampleTask& task, Scratch& s) const;

  const VocabKernels& kernels_;
  int vocab_size_;
  std::vector<std::unique_ptr<Scratch>> scratch_;
};

}  // namespace unspool
