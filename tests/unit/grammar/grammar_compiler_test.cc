#include "grammar/grammar_compiler.h"

#include <gtest/gtest.h>

#include <future>

#include "fake_grammar.h"

namespace unspool {
namespace {

// Waits for the outcome: nothing here may take a minute.
GrammarCompiler::Compiled outcome_of(std::future<GrammarCompiler::Compiled>& future) {
  if (future.wait_for(std::chrono::minutes(1)) != std::future_status::ready) return internal_error("no outcome");
  return future.get();
}

std::future<GrammarCompiler::Compiled> ask(GrammarCompiler& compiler, const std::string& text) {
  auto promise = std::make_shared<std::promise<GrammarCompiler::Compiled>>();
  compiler.compile({GrammarKind::kRegex, text}, [promise](const auto& compiled) { promise->set_value(compiled); });
  return promise->get_future();
}

GrammarCompiler::Compiled compile(GrammarCompiler& compiler, const std::string& text) {
  auto future = ask(compiler, text);
  return outcome_of(future);
}

TEST(GrammarCompiler, CompilesEachOnceForAllWhoAskAtTheSameTime) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.threads = 2, .limit_s = 60});
  std::vector<std::future<GrammarCompiler::Compiled>> futures;
  for (int i = 0; i < 20; ++i) futures.push_back(ask(compiler, "slow:a"));
  backend->released = true;
  const CompiledGrammar* first = nullptr;
  for (auto& future : futures) {
    const auto compiled = outcome_of(future);
    ASSERT_TRUE(compiled.ok());
    if (first == nullptr) first = compiled->get();
    EXPECT_EQ(compiled->get(), first);
  }
  EXPECT_EQ(compile(compiler, "slow:a")->get(), first);
  EXPECT_EQ(backend->num_compiled, 1);
}

TEST(GrammarCompiler, ADifferentKindOrWhitespaceIsAnotherGrammar) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {});
  for (const GrammarSpec& spec : {GrammarSpec{GrammarKind::kRegex, "a"}, GrammarSpec{GrammarKind::kEbnf, "a"},
                                  GrammarSpec{GrammarKind::kEbnf, "a", false}}) {
    std::promise<void> done;
    compiler.compile(spec, [&](const auto&) { done.set_value(); });
    done.get_future().wait();
  }
  EXPECT_EQ(backend->num_compiled, 3);
}

std::string times(int n, const std::string& text) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

TEST(GrammarCompiler, BoundsRulesAndReferences) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.max_links = 100});
  const std::vector<std::pair<GrammarKind, std::string>> links = {
      {GrammarKind::kEbnf, "r::=r\n"},
      {GrammarKind::kLark, "r:r\n"},
      {GrammarKind::kJsonSchema, R"({"$ref":"#"},)"},
      {GrammarKind::kJsonSchema, R"({"anyOf":[{}]},)"},
      {GrammarKind::kStructuralTag, R"({"allOf":[]},)"},
      {GrammarKind::kStructuralTag, R"(r::=r\n)"},
  };
  const auto message = [&](GrammarKind kind, const std::string& text) {
    std::promise<GrammarCompiler::Compiled> done;
    compiler.compile({kind, text}, [&](const auto& compiled) { done.set_value(compiled); });
    auto future = done.get_future();
    const auto compiled = outcome_of(future);
    return compiled.ok() ? "" : compiled.error().message;
  };
  for (const auto& [kind, link] : links) {
    EXPECT_EQ(message(kind, times(100, link)), "") << link;
    EXPECT_EQ(message(kind, times(101, link)),
              "A grammar may have at most 100 rules, references (`$ref`) and alternatives (`anyOf`, `oneOf`, `allOf`), "
              "and this one has 101.");
  }
  EXPECT_EQ(message(GrammarKind::kRegex, times(101, "r::=r:")), "") << "a pattern has no rules";
}

TEST(GrammarCompiler, KeepsWhatWasUsedLastWithinItsBytes) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.cache_bytes = 4000});  // two grammars and their entries
  for (const char* text : {"a", "b", "a", "c", "a"}) ASSERT_TRUE(compile(compiler, text).ok());
  EXPECT_EQ(backend->num_compiled, 3) << "a was used in between and must have stayed";
  ASSERT_TRUE(compile(compiler, "b").ok());
  EXPECT_EQ(backend->num_compiled, 4) << "b was used longest ago and must have gone";
  EXPECT_LE(compiler.stats().bytes_kept, 4000u);
  EXPECT_EQ(compiler.stats().num_kept, 2u);
}

TEST(GrammarCompiler, FailuresAreRememberedAndBounded) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.cache_bytes = 10000});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compile(compiler, "bad:x").error().message, "no such grammar");
  EXPECT_EQ(backend->num_compiled, 1);
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(compile(compiler, "bad:" + std::to_string(i)).ok());
  EXPECT_LE(compiler.stats().bytes_kept, 10000u);
}

TEST(GrammarCompiler, ATextBeyondTheLimitIsRefusedUnseen) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.max_text_bytes = 100});
  EXPECT_EQ(compile(compiler, std::string(101, 'a')).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(backend->num_compiled, 0);
  EXPECT_TRUE(compile(compiler, std::string(100, 'a')).ok());
}

TEST(GrammarCompiler, OneThatTakesTooLongIsGivenUpAndOthersGoOn) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.threads = 1, .limit_s = 0.05});
  auto slow = ask(compiler, "slow:a");
  EXPECT_TRUE(compile(compiler, "b").ok()) << "another thread must have taken over";
  const auto given_up = outcome_of(slow);
  ASSERT_FALSE(given_up.ok());
  EXPECT_EQ(given_up.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_NE(given_up.error().message.find("takes more than"), std::string::npos);
  EXPECT_EQ(compiler.stats().num_left_behind, 1);
  // Who asks again does not cost another thread.
  EXPECT_FALSE(compile(compiler, "slow:a").ok());
  EXPECT_EQ(backend->num_compiled, 2);
  // With as many left behind as may be, nobody's grammar is tried.
  for (const char* text : {"slow:b", "slow:c", "slow:d"}) EXPECT_FALSE(compile(compiler, text).ok());
  EXPECT_EQ(compiler.stats().num_left_behind, 4);
  EXPECT_EQ(compile(compiler, "c").error().kind, ErrorKind::kUnavailable);
  backend->released = true;
  while (compiler.stats().num_left_behind > 0) std::this_thread::yield();
  EXPECT_TRUE(compile(compiler, "c").ok());
}

TEST(GrammarCompiler, OneThatIsCondemnedIsNotTriedAgain) {
  const auto backend = std::make_shared<FakeBackend>();
  GrammarCompiler compiler(backend, {.cache_bytes = 10000});
  ASSERT_TRUE(compile(compiler, "a").ok());
  compiler.condemn({GrammarKind::kRegex, "a"}, invalid_argument("of no use"));
  EXPECT_EQ(compile(compiler, "a").error().message, "of no use");
  compiler.condemn({GrammarKind::kRegex, "b"}, invalid_argument("nor is it"));
  EXPECT_EQ(compile(compiler, "b").error().message, "nor is it");
  EXPECT_EQ(backend->num_compiled, 1);
  for (int i = 0; i < 100; ++i) compiler.condemn({GrammarKind::kRegex, "a"}, invalid_argument("of no use"));
  EXPECT_EQ(compiler.stats().num_kept, 2u);
  EXPECT_LT(compiler.stats().bytes_kept, 2000u);
}

}  // namespace
}  // namespace unspool
