// Constrained requests in the engine: they wait for their grammar without holding anyone up, and follow it.
#include "grammar/grammar_compiler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "../grammar/fake_grammar.h"
#include "core_harness.h"

namespace unspool {
namespace {

constexpr int32_t kStop = 3;
const std::string kText = "!#%!";  // bytes below the fake model's 48 tokens
const std::vector<int32_t> kSaid = {'!', '#', '%', '!', kStop};

class GrammarHarness : public CoreHarness {
 public:
  explicit GrammarHarness(EngineConfig config = roomy()) : GrammarHarness(config, std::make_shared<FakeBackend>()) {}
  ~GrammarHarness() {
    backend->released = true;
    FakeMatcher::hung_released() = true;
    core.set_post({});
  }

  // Hands on the grammars that are ready; with `all`, waits for those that are not.
  void settle(bool all = true) {
    do {
      std::vector<std::function<void(EngineCore&)>> taken;
      {
        const std::lock_guard lock(mutex);
        taken.swap(messages);
      }
      for (const auto& message : taken) message(core);
    } while (all && core.num_compiling() > 0);
  }
  void finish() {
    settle();
    run();
  }

  std::shared_ptr<FakeBackend> backend;
  GrammarCompiler compiler;

 private:
  GrammarHarness(EngineConfig config, std::shared_ptr<FakeBackend> fake)
      : CoreHarness(config, nullptr, &compiler), backend(fake), compiler(fake, {.threads = 1, .limit_s = 60}) {
    FakeMatcher::hung_released() = false;
    core.set_post([this](std::function<void(EngineCore&)> message) {
      const std::lock_guard lock(mutex);
      messages.push_back(std::move(message));
      return true;
    });
  }

  std::mutex mutex;
  std::vector<std::function<void(EngineCore&)>> messages;
};

EngineRequest constrained(const std::string& text, uint64_t prompt_seed = 1) {
  EngineRequest request = request_of(random_prompt(5, prompt_seed), 16);
  request.params.eos_token_id = kStop;
  request.params.structured_outputs =
      std::make_shared<StructuredOutputs>(StructuredOutputs{{GrammarKind::kRegex, text}, "", {}});
  return request;
}

TEST(EngineGrammar, SaysWhatTheGrammarSaysAndStops) {
  GrammarHarness harness;
  Record record;
  harness.add(record, constrained(kText));
  harness.finish();
  EXPECT_EQ(record.samples[0].token_ids, kSaid);
  EXPECT_EQ(record.samples[0].finish_reason, FinishReason::kStop);
  // The mask comes before everything: what is left is certain, in raw log-probs too.
  for (const PositionLogprobs& position : record.samples[0].logprobs) EXPECT_EQ(position[0].logprob, 0.0f);
}

TEST(EngineGrammar, NeighboursAreAsTheyAreAlone) {
  Record want = alone(request_of(random_prompt(9, 4), 12));
  GrammarHarness harness;
  Record record, free;
  harness.add(record, constrained(kText));
  harness.add(free, request_of(random_prompt(9, 4), 12));
  harness.finish();
  EXPECT_EQ(record.samples[0].token_ids, kSaid);
  expect_same(free, want);
}

TEST(EngineGrammar, EverySampleFollowsByItself) {
  GrammarHarness harness;
  EngineRequest request = constrained(kText);
  request.params.n = 5;
  Record record;
  harness.add(record, std::move(request));
  harness.finish();
  ASSERT_EQ(record.samples.size(), 5u);
  for (auto& [index, sample] : record.samples) EXPECT_EQ(sample.token_ids, kSaid) << index;
}

TEST(EngineGrammar, FollowsThroughPreemptions) {
  EngineConfig config = CoreHarness::roomy();
  config.num_blocks = 4;
  GrammarHarness harness(config);
  const std::string text(20, '!');
  std::vector<Record> records(3);
  for (size_t i = 0; i < records.size(); ++i) {
    EngineRequest request = constrained(text, i);
    request.params.max_tokens = 30;
    harness.add(records[i], std::move(request));
  }
  harness.finish();
  for (Record& record : records) {
    EXPECT_EQ(record.samples[0].token_ids.size(), 21u);
    EXPECT_EQ(record.samples[0].finish_reason, FinishReason::kStop);
  }
}

TEST(EngineGrammar, AWaitingRequestHoldsNobodyUp) {
  GrammarHarness harness;
  Record slow, free;
  harness.add(slow, constrained("slow:"));
  harness.settle(false);
  EXPECT_FALSE(harness.core.has_work());
  EXPECT_EQ(harness.core.load().waiting, 1);
  harness.add(free, request_of(random_prompt(5, 2), 6));
  while (harness.core.has_work()) harness.core.step();
  EXPECT_TRUE(free.finished());
  EXPECT_FALSE(slow.finished());
  for (const auto& violation : harness.core.validate()) ADD_FAILURE() << violation;
  harness.backend->released = true;
  harness.settle();
  // The text is the grammar's name: "s" is no token of the model, so nothing is left to draw.
  harness.run();
  ASSERT_TRUE(slow.error);
  EXPECT_EQ(slow.error->kind, ErrorKind::kInvalidArgument);
}

TEST(EngineGrammar, AbortedOrGoneWhileItWaits) {
  GrammarHarness harness;
  EngineRequest aborted_request = constrained("slow:");
  aborted_request.external_id = "x";
  aborted_request.params.n = 2;
  Record aborted, dropped, all;
  harness.add(aborted, std::move(aborted_request));
  const uint64_t gone = harness.add(dropped, constrained("slow:"));
  harness.core.abort({"x"});
  harness.core.drop(gone);
  EXPECT_TRUE(aborted.finished());
  EXPECT_EQ(aborted.samples.size(), 2u);
  EXPECT_EQ(aborted.samples[0].finish_reason, FinishReason::kAbort);
  harness.add(all, constrained("slow:"));
  harness.core.abort_all();
  EXPECT_EQ(all.samples[0].finish_reason, FinishReason::kAbort);
  harness.backend->released = true;
  harness.finish();  // what comes late is for nobody
  EXPECT_EQ(harness.backend->num_compiled, 1);
}

TEST(EngineGrammar, ABadGrammarFailsItsRequestAlone) {
  GrammarHarness harness;
  Record bad, good;
  harness.add(bad, constrained("bad:"));
  harness.add(good, constrained(kText));
  harness.finish();
  ASSERT_TRUE(bad.error);
  EXPECT_EQ(bad.error->kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(bad.error->message, "no such grammar");
  EXPECT_EQ(good.samples[0].token_ids, kSaid);
}

TEST(EngineGrammar, ADeadEndEndsTheRequest) {
  GrammarHarness harness;
  EngineRequest request = constrained(kText);
  request.params.bad_words_token_ids = {{'%'}};
  Record record;
  harness.add(record, std::move(request));
  harness.finish();
  ASSERT_TRUE(record.error);
  EXPECT_EQ(record.error->kind, ErrorKind::kInvalidArgument);
}

TEST(EngineGrammar, MinTokensGivesWayWhereOnlyAStopIsLeft) {
  GrammarHarness harness;
  EngineRequest request = constrained(kText);
  request.params.min_tokens = 10;
  Record record;
  harness.add(record, std::move(request));
  harness.finish();
  EXPECT_EQ(record.samples[0].token_ids, kSaid);
}

TEST(EngineGrammar, IgnoreEosGoesOnFreelyBehindTheEnd) {
  GrammarHarness harness;
  EngineRequest request = constrained(kText);
  request.params.ignore_eos = true;
  Record record;
  harness.add(record, std::move(request));
  harness.finish();
  const auto& ids = record.samples[0].token_ids;
  ASSERT_EQ(ids.size(), 16u);
  EXPECT_TRUE(std::equal(kSaid.begin(), kSaid.end(), ids.begin()));
  EXPECT_EQ(record.samples[0].finish_reason, FinishReason::kLength);
}

TEST(EngineGrammar, ReasoningIsFreeUntilItsEnd) {
  GrammarHarness harness;
  EngineRequest request = constrained(kText);
  StructuredOutputs outputs = *request.params.structured_outputs;
  std::vector<int32_t> free = alone(request_of(random_prompt(5, 1), 16)).samples[0].token_ids;
  outputs.reasoning_ends = {{free[2], false}};
  request.params.structured_outputs = std::make_shared<StructuredOutputs>(outputs);
  Record record;
  harness.add(record, std::move(request));
  harness.finish();
  const auto& ids = record.samples[0].token_ids;
  const auto end = std::find(free.begin(), free.end(), free[2]) + 1 - free.begin();
  ASSERT_EQ(ids.size(), end + kSaid.size());
  EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + end, free.begin())) << "as without a grammar";
  EXPECT_TRUE(std::equal(kSaid.begin(), kSaid.end(), ids.begin() + end));
}

TEST(EngineGrammar, AMaskThatNeverComesFailsItsRequestAlone) {
  GrammarHarness harness;
  Record hung, good;
  harness.add(hung, constrained("!hang"));
  harness.add(good, constrained(kText));
  harness.finish();
  ASSERT_TRUE(hung.error);
  EXPECT_EQ(hung.error->kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(hung.error->message.find("takes more than"), std::string::npos);
  EXPECT_EQ(good.samples[0].token_ids, kSaid);
  // It is known from then on, and costs nobody anything.
  const int steps = harness.executor.num_steps;
  Record again;
  harness.add(again, constrained("!hang"));
  harness.finish();
  ASSERT_TRUE(again.error);
  EXPECT_EQ(harness.executor.num_steps, steps);
}

TEST(EngineGrammar, WithoutAGrammarEngineItIsRefused) {
  CoreHarness harness;
  Record record;
  harness.add(record, constrained(kText));
  ASSERT_TRUE(record.error);
  EXPECT_EQ(record.error->kind, ErrorKind::kInvalidArgument);
  harness.expect_empty();
}

}  // namespace
}  // namespace unspool
