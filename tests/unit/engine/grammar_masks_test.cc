#include "engine/grammar_masks.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "../grammar/fake_grammar.h"

namespace unspool {
namespace {

constexpr int kVocab = 200;
constexpr int32_t kStop = 130;
constexpr GrammarMasks::Limits kShort = {0.05, 6};

GrammarMasks::Row row(const std::string& text, std::vector<int32_t> token_ids = {}) {
  return {std::make_shared<Constraint>(std::make_shared<FakeGrammar>(text), std::vector<int32_t>{kStop},
                                       std::vector<ReasoningEnd>{}, kVocab),
          std::move(token_ids), std::nullopt};
}

bool allows(const GrammarMasks::Row& row, int32_t id) {
  const auto mask = row.constraint->mask();
  return !row.error && !mask.empty() && (mask[id / 32] >> (id % 32) & 1U) != 0;
}

class Masks : public testing::Test {
 protected:
  void SetUp() override { FakeMatcher::hung_released() = false; }
  // Who was left behind would spin beside the other tests.
  void TearDown() override { FakeMatcher::hung_released() = true; }
};

TEST_F(Masks, EveryRowHasItsOwn) {
  GrammarMasks masks(2);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{100}}) {
    std::vector<GrammarMasks::Row> rows;
    for (size_t i = 0; i < count; ++i) {
      const std::string text(1, static_cast<char>('a' + i % 26));
      rows.push_back(i % 2 == 0 ? row(text) : row("x" + text, {'x'}));
    }
    masks.start(rows);
    masks.finish(rows);
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(allows(rows[i], static_cast<int32_t>('a' + i % 26))) << i;
  }
  std::vector<GrammarMasks::Row> none;
  masks.start(none);
  masks.finish(none);
}

TEST_F(Masks, ATokenThatDoesNotFollowIsItsRowsError) {
  GrammarMasks masks(2);
  std::vector<GrammarMasks::Row> rows = {row("ab", {'a'}), row("ab", {'q'}), row("ab", {'a'})};
  masks.start(rows);
  masks.finish(rows);
  EXPECT_TRUE(allows(rows[0], 'b') && allows(rows[2], 'b'));
  ASSERT_TRUE(rows[1].error);
  EXPECT_EQ(rows[1].error->kind, ErrorKind::kInternal);
}

TEST_F(Masks, WhoTakesTooLongIsGivenUpAndNobodyElse) {
  GrammarMasks masks(2, kShort);
  std::vector<GrammarMasks::Row> rows;
  for (int i = 0; i < 40; ++i)
    rows.push_back(row(i % 13 == 5 ? "hang" : "ab", i % 13 == 5 ? std::vector<int32_t>{} : std::vector<int32_t>{'a'}));
  masks.start(rows);
  masks.finish(rows);
  for (int i = 0; i < 40; ++i) {
    if (i % 13 == 5) {
      ASSERT_TRUE(rows[i].error) << i;
      EXPECT_EQ(rows[i].error->kind, ErrorKind::kInvalidArgument);
    } else {
      EXPECT_TRUE(allows(rows[i], 'b')) << i;
    }
  }
}

TEST_F(Masks, WithoutThreadsLeftRowsAreRefusedForNow) {
  GrammarMasks masks(2, kShort);
  std::vector<GrammarMasks::Row> rows;
  for (int i = 0; i < 8; ++i) rows.push_back(row("hang"));
  masks.start(rows);
  masks.finish(rows);
  int unavailable = 0;
  for (const GrammarMasks::Row& each : rows) {
    ASSERT_TRUE(each.error);
    unavailable += each.error->kind == ErrorKind::kUnavailable;
  }
  EXPECT_GT(unavailable, 0);
  // They come back, and with them everyone's masks.
  FakeMatcher::hung_released() = true;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    std::vector<GrammarMasks::Row> again = {row("ab"), row("ab"), row("ab")};
    masks.start(again);
    masks.finish(again);
    if (!again[0].error && !again[1].error && !again[2].error) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "no thread came back";
}

TEST_F(Masks, WhatWasStartedMayBeForgotten) {
  GrammarMasks masks(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<GrammarMasks::Row> rows = {row("ab"), row("cd")};
    masks.start(rows);
    if (i % 3 == 0) masks.finish(rows);
  }
}

}  // namespace
}  // namespace unspool
