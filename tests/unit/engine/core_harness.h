// An EngineCore on the fake model, and what each of its requests has said.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

#include "backend/reference/vocab_reference.h"
#include "engine/engine_core.h"
#include "fake_executor.h"

namespace unspool {

struct SampleRecord {
  std::vector<int32_t> token_ids;
  std::vector<PositionLogprobs> logprobs;
  std::string text;
  std::optional<FinishReason> finish_reason;
  StopReason stop_reason;
  std::vector<WeightVersionSpan> weight_versions;
  std::optional<RoutedExperts> routed_experts;
};

struct Record {
  std::map<int, SampleRecord> samples;
  std::optional<std::vector<PositionLogprobs>> prompt_logprobs;
  std::optional<Error> error;
  int num_cached_tokens = 0;
  int num_finished = 0;
  bool finished() const { return num_finished == 1; }
};

inline OutputSink record_into(Record& record) {
  return [&record](RequestOutput output) {
    EXPECT_EQ(record.num_finished, 0) << "an output after the last";
    for (auto& delta : output.deltas) {
      SampleRecord& sample = record.samples[delta.index];
      EXPECT_FALSE(sample.finish_reason) << "a delta after the last";
      sample.token_ids.insert(sample.token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
      sample.logprobs.insert(sample.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
      sample.text += delta.text;
      sample.finish_reason = delta.finish_reason;
      sample.stop_reason = delta.stop_reason;
      sample.weight_versions = delta.weight_versions;
      EXPECT_TRUE(delta.finish_reason || !delta.routed_experts) << "experts before the end";
      sample.routed_experts = std::move(delta.routed_experts);
    }
    if (output.prompt_logprobs) {
      EXPECT_FALSE(record.prompt_logprobs) << "prompt log-probs twice";
      record.prompt_logprobs = std::move(output.prompt_logprobs);
    }
    record.num_cached_tokens = output.num_cached_tokens;
    record.error = output.error;
    record.num_finished += output.finished ? 1 : 0;
  };
}

class CoreHarness {
 public:
  explicit CoreHarness(EngineConfig config = roomy(), std::shared_ptr<const Tokenizer> tokenizer = nullptr,
                       GrammarCompiler* grammars = nullptr)
      : executor(config.num_blocks, config.block_size),
        pool(2),
        sampler(reference_vocab_kernels(), FakeExecutor::kVocab),
        core(config, {&executor, &sampler, &pool, std::move(tokenizer), &metrics, nullptr, grammars}, 12345) {}

  static EngineConfig roomy() {
    EngineConfig config;
    config.num_blocks = 1000;
    config.block_size = 8;
    config.max_model_len = 2000;
    return config;
  }

  uint64_t add(Record& record, EngineRequest request) {
    request.sink = record_into(record);
    core.add(++last_id, std::move(request));
    return last_id;
  }
  void run(int max_steps = 20000) {
    while (core.has_work() && max_steps-- > 0) core.step();
    EXPECT_FALSE(core.has_work()) << "still at work";
    expect_empty();
  }
  void expect_empty() {
    EXPECT_EQ(core.num_requests(), 0u);
    EXPECT_EQ(core.load().running, 0);
    EXPECT_EQ(core.load().waiting, 0);
    EXPECT_EQ(core.load().kv_cache_usage, 0.0);
    for (const auto& violation : core.validate()) ADD_FAILURE() << violation;
  }

  FakeExecutor executor;
  ThreadPool pool;
  Sampler sampler;
  MetricsRegistry metrics;
  EngineCore core;
  uint64_t last_id = 0;
};

inline std::vector<int32_t> random_prompt(int length, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<int32_t> prompt(length);
  for (auto& token : prompt) token = static_cast<int32_t>(generator() % FakeExecutor::kVocab);
  return prompt;
}

inline EngineRequest request_of(std::vector<int32_t> prompt, int max_tokens = 16, int64_t seed = 1) {
  EngineRequest request;
  request.prompt_token_ids = std::move(prompt);
  request.params.max_tokens = max_tokens;
  request.params.seed = seed;
  request.params.logprobs = 2;
  return request;
}

inline bool same_logprobs(const std::vector<PositionLogprobs>& a, const std::vector<PositionLogprobs>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const TokenLogprob& u, const TokenLogprob& v) {
      return u.token_id == v.token_id && u.logprob == v.logprob && u.rank == v.rank;
    });
  });
}

inline void expect_same(const SampleRecord& got, const SampleRecord& want) {
  EXPECT_EQ(got.token_ids, want.token_ids);
  EXPECT_TRUE(same_logprobs(got.logprobs, want.logprobs));
  EXPECT_EQ(got.finish_reason, want.finish_reason);
  EXPECT_EQ(got.routed_experts.has_value(), want.routed_experts.has_value());
  if (got.routed_experts && want.routed_experts) {
    EXPECT_EQ(got.routed_experts->ids, want.routed_experts->ids);
  }
}

inline void expect_same(Record& got, Record& want) {
  EXPECT_TRUE(got.finished());
  EXPECT_FALSE(got.error);
  EXPECT_EQ(got.samples.size(), want.samples.size());
  for (auto& [index, sample] : want.samples) expect_same(got.samples[index], sample);
  EXPECT_EQ(got.prompt_logprobs.has_value(), want.prompt_logprobs.has_value());
  if (got.prompt_logprobs && want.prompt_logprobs) {
    EXPECT_TRUE(same_logprobs(*got.prompt_logprobs, *want.prompt_logprobs));
  }
}

// The request alone, in one chunk, in a cache with room to spare.
inline Record alone(EngineRequest request) {
  CoreHarness harness;
  Record record;
  harness.add(record, std::move(request));
  harness.run();
  EXPECT_TRUE(record.finished());
  return record;
}

}  // namespace unspool
