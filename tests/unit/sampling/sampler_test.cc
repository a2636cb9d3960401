// What holds of the sampler as a whole: bits, failures, threads.
#include <bit>
#include <string>
#include <thread>

#include "backend/cpu/isa.h"
#include "fixture.h"
#include "oracle.h"

namespace unspool {
namespace {

using Values = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Parameters with everything in them, some of the time.
SamplingParams random_params(std::mt19937_64& random, int vocab_size) {
  SamplingParams params = oracle::random_truncation(random, vocab_size);
  const auto some_id = [&] { return static_cast<int32_t>(random() % vocab_size); };
  if (random() % 4 == 0) params.temperature = 0.0f;
  if (random() % 4 == 0) params.logit_bias = {{some_id(), 3.0f}, {some_id(), -100.0f}};
  if (random() % 4 == 0) params.repetition_penalty = 1.3f;
  if (random() % 4 == 0) params.presence_penalty = 0.7f;
  if (random() % 4 == 0) params.bad_words_token_ids = {{some_id()}, {some_id(), some_id()}};
  params.logprobs = static_cast<int>(random() % 6);
  params.return_kept_mass = true;
  return params;
}

struct Case {
  Values logits;
  SamplingParams params;
  std::vector<int32_t> prompt, output;
  uint64_t seed;

  int64_t position() const { return static_cast<int64_t>(prompt.size() + output.size()); }
  SampleTask task() const { return {logits, &params, prompt, output, seed, position()}; }
  Draw draw() const { return {prompt, output, seed, position()}; }
};

std::vector<Case> random_cases(int count, int vocab_size) {
  std::mt19937_64 random(count);
  std::vector<Case> cases(count);
  for (Case& c : cases) {
    c.logits = oracle::random_logits(random, vocab_size);
    c.params = random_params(random, vocab_size);
    for (uint64_t i = random() % 30; i > 0; --i) c.prompt.push_back(static_cast<int32_t>(random() % vocab_size));
    for (uint64_t i = random() % 30; i > 0; --i) c.output.push_back(static_cast<int32_t>(random() % vocab_size));
    c.seed = random();
  }
  return cases;
}

uint32_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}

void expect_same_bits(const SampleResult& a, const SampleResult& b) {
  ASSERT_EQ(a.finite, b.finite);
  ASSERT_EQ(a.token_id, b.token_id);
  ASSERT_EQ(bits(a.kept_logprob), bits(b.kept_logprob));
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    ASSERT_EQ(a.logprobs[i].token_id, b.logprobs[i].token_id);
    ASSERT_EQ(a.logprobs[i].rank, b.logprobs[i].rank);
    ASSERT_EQ(bits(a.logprobs[i].logprob), bits(b.logprobs[i].logprob));
  }
}

TEST(Sampler, SampledLogprobsHaveThePromptsBits) {
  constexpr int kVocab = 3000;
  Sampler sampler(reference_vocab_kernels(), kVocab);
  sampler.reserve(1);
  for (Case& c : random_cases(500, kVocab)) {
    c.params.logprobs_mode = c.seed % 2 == 0 ? LogprobsMode::kRawLogprobs : LogprobsMode::kRawLogits;
    const SampleResult result = sampler.sample(c.task(), 0);
    if (!result.finite) continue;
    SampleResult again;
    again.token_id = result.token_id;
    again.kept_logprob = result.kept_logprob;
    again.logprobs =
        sampler.prompt_logprobs({c.logits, result.token_id, *c.params.logprobs, c.params.logprobs_mode}, 0);
    expect_same_bits(result, again);
  }
}

// The head has them already.
TEST(Sampler, StatsThatAreGivenAreNotTakenAgain) {
  constexpr int kVocab = 3000;
  const VocabKernels& kernels = reference_vocab_kernels();
  Sampler sampler(kernels, kVocab);
  sampler.reserve(1);
  for (Case& c : random_cases(300, kVocab)) {
    std::vector<BlockStat> blocks(static_cast<size_t>(vocab_blocks(kVocab)));
    kernels.block_stats(c.logits.data(), kVocab, blocks.data());
    SampleTask task = c.task();
    const SampleResult taken = sampler.sample(task, 0);
    task.blocks = blocks;
    expect_same_bits(taken, sampler.sample(task, 0));
    // They are read, then: where they say that nothing is to be had, nothing is.
    if (!c.params.greedy() && c.params.temperature == 1.0f && taken.finite && !taken.barred) {
      for (BlockStat& block : blocks) block = {-kInfinity, 0.0f};
      const PromptTask scored = {.logits = c.logits, .token_id = taken.token_id, .blocks = blocks};
      EXPECT_TRUE(sampler.prompt_logprobs(scored, 0).empty());
    }
  }
}

TEST(Sampler, UntruncatedProcessedValuesHaveTheRawBits) {
  for (Case& c : random_cases(50, 900)) {
    c.params = SamplingParams{};
    c.params.logprobs = 5;
    const SampleResult raw = sample_row(c.logits, c.params, {.seed = c.seed});
    c.params.logprobs_mode = LogprobsMode::kProcessedLogprobs;
    expect_same_bits(raw, sample_row(c.logits, c.params, {.seed = c.seed}));
  }
}

TEST(Sampler, EarlierRowsLeaveNoTrace) {
  constexpr int kVocab = 1100;
  Sampler sampler(reference_vocab_kernels(), kVocab);
  sampler.reserve(1);
  const std::vector<Case> cases = random_cases(300, kVocab);
  for (const Case& c : cases) {
    Sampler fresh(reference_vocab_kernels(), kVocab);
    fresh.reserve(1);
    expect_same_bits(sampler.sample(c.task(), 0), fresh.sample(c.task(), 0));
  }
}

TEST(Sampler, ThreadsGiveTheSameBits) {
  constexpr int kVocab = 1500;
  constexpr int kThreads = 3;
  Sampler sampler(reference_vocab_kernels(), kVocab);
  sampler.reserve(kThreads);
  const std::vector<Case> cases = random_cases(300, kVocab);
  std::vector<SampleResult> alone, together(cases.size());
  for (const Case& c : cases) alone.push_back(sampler.sample(c.task(), 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < cases.size(); i += kThreads) together[i] = sampler.sample(cases[i].task(), t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < cases.size(); ++i) expect_same_bits(alone[i], together[i]);
}

TEST(Sampler, InstructionSetsGiveTheSameBits) {
  constexpr int kVocab = 2100;
  const std::vector<Case> cases = random_cases(200, kVocab);
  for (const std::string& name : cpu::available_instruction_sets()) {
    SCOPED_TRACE(name);
    const auto table = cpu::select_kernels(name);
    ASSERT_TRUE(table.ok());
    Sampler sampler((*table)->vocab, kVocab);
    sampler.reserve(1);
    for (const Case& c : cases) {
      expect_same_bits(sampler.sample(c.task(), 0), sample_row(c.logits, c.params, c.draw()));
    }
  }
}

TEST(Sampler, NeverWritesTheLogits) {
  for (const Case& c : random_cases(100, 800)) {
    const Values before = c.logits;
    sample_row(c.logits, c.params, c.draw());
    ASSERT_EQ(c.logits, before);
  }
}

TEST(Sampler, NonFiniteRowsFailInEveryMode) {
  for (const float bad : {kNan, -kNan, kInfinity}) {
    for (const int at : {0, 255, 256, 399}) {
      Values logits(400, 0.5f);
      logits[at] = bad;
      for (SamplingParams params : {SamplingParams{}, greedy_params()}) {
        EXPECT_FALSE(sample_row(logits, params).finite);
        params.logprobs = 2;
        params.allowed_token_ids = {1, 2};  // does not hide it
        const SampleResult result = sample_row(logits, params);
        EXPECT_FALSE(result.finite);
        EXPECT_FALSE(result.barred);
        EXPECT_EQ(result.token_id, -1);
        EXPECT_TRUE(result.logprobs.empty());
      }
      Sampler sampler(reference_vocab_kernels(), 400);
      sampler.reserve(1);
      EXPECT_TRUE(sampler.prompt_logprobs({logits, 3, 5}, 0).empty());
    }
  }
}

TEST(Sampler, NothingLeftToDrawFails) {
  for (SamplingParams params : {SamplingParams{}, greedy_params()}) {
    EXPECT_FALSE(sample_row(Values(300, -kInfinity), params).finite);
    params.allowed_token_ids = {7};
    EXPECT_TRUE(sample_row(Values(300, 0.0f), params).finite);
    EXPECT_FALSE(sample_row(Values(300, 0.0f), params).barred);
    params.min_tokens = 1;
    params.stop_token_ids = {7};
    const SampleResult result = sample_row(Values(300, 0.0f), params);
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(result.barred);
    EXPECT_EQ(result.token_id, -1);
  }
}

TEST(Sampler, OverflowOnTheWayFails) {
  SamplingParams params;
  params.temperature = 0.01f;
  EXPECT_FALSE(sample_row(Values{3e38f, 0.0f}, params).finite);
  EXPECT_TRUE(sample_row(Values{-3e38f, 0.0f}, params).finite);
  params = greedy_params();
  params.logit_bias = {{0, kNan}};
  EXPECT_FALSE(sample_row(Values{1.0f, 0.0f}, params).finite);
}

TEST(Sampler, ExtremeButFiniteRows) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const Values& logits : {Values{kMax, -kMax, 0.0f}, Values{-kMax, -kMax, -kMax}, Values{0.0f, -0.0f, 1e-44f}}) {
    SamplingParams params;
    params.logprobs = -1;
    params.logprobs_mode = LogprobsMode::kProcessedLogprobs;
    for (const float top_p : {1.0f, 0.9f}) {
      for (const int top_k : {0, 1, 2, 3}) {
        params.top_p = top_p;
        params.top_k = top_k;
        const SampleResult result = sample_row(logits, params);
        EXPECT_TRUE(result.finite);
        for (const TokenLogprob& entry : result.logprobs) EXPECT_LE(entry.logprob, 0.0f);  // false for NaN
      }
    }
  }
}

TEST(Sampler, AVocabularyOfOne) {
  for (SamplingParams params : {SamplingParams{}, greedy_params()}) {
    params.logprobs = 5;
    params.top_p = 0.5f;
    params.top_k = 1;
    const SampleResult result = sample_row(Values{-4.0f}, params);
    EXPECT_EQ(result.token_id, 0);
    ASSERT_EQ(result.logprobs.size(), 1u);
    EXPECT_EQ(result.logprobs[0].logprob, 0.0f);
    EXPECT_EQ(result.logprobs[0].rank, 1);
  }
}

}  // namespace
}  // namespace unspool
