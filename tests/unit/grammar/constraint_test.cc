#include "grammar/constraint.h"

#include <gtest/gtest.h>

#include "fake_grammar.h"

namespace unspool {
namespace {

constexpr int kVocab = 200;
constexpr int32_t kStop = 130;
constexpr int32_t kEndThink = 140;
constexpr int32_t kCall = 'x';

Constraint constraint(const char* text, std::vector<ReasoningEnd> ends = {}) {
  return Constraint(std::make_shared<FakeGrammar>(text), {kStop}, std::move(ends), kVocab);
}

std::vector<int32_t> allowed(const Constraint& constraint) {
  std::vector<int32_t> ids;
  const auto mask = constraint.mask();
  for (int32_t id = 0; !mask.empty() && id < kVocab; ++id) {
    if ((mask[id / 32] >> (id % 32) & 1U) != 0) ids.push_back(id);
  }
  return ids;
}

TEST(Constraint, FollowsFromTheFirstTokenToTheStop) {
  Constraint c = constraint("ab");
  ASSERT_TRUE(c.advance({}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'a'}));
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'a'}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'b'}));
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'b'}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{kStop}));
  // ignore_eos goes on behind the end; nothing is asked there.
  ASSERT_TRUE(c.advance(std::vector<int32_t>{kStop}).ok());
  EXPECT_TRUE(c.mask().empty());
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'q', 'r'}).ok());
  EXPECT_TRUE(c.mask().empty());
}

TEST(Constraint, SeveralTokensAtOnceAreAsOneByOne) {
  Constraint c = constraint("abc");
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'a', 'b'}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'c'}));
}

TEST(Constraint, ATokenThatDoesNotFollowIsAFault) {
  Constraint c = constraint("ab");
  ASSERT_TRUE(c.advance({}).ok());
  EXPECT_EQ(c.advance(std::vector<int32_t>{'z'}).error().kind, ErrorKind::kInternal);
}

TEST(Constraint, ReasoningIsFreeAndItsEndIsNoPartOfTheOutput) {
  Constraint c = constraint("ab", {{kEndThink, false}, {kCall, true}});
  ASSERT_TRUE(c.advance({}).ok());
  EXPECT_TRUE(c.mask().empty());
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'q', 'b', kStop}).ok());
  EXPECT_TRUE(c.mask().empty());
  ASSERT_TRUE(c.advance(std::vector<int32_t>{kEndThink}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'a'}));
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'a'}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'b'}));
}

TEST(Constraint, ACallThatTheGrammarDoesNotKnowEndsTheReasoningAlone) {
  Constraint c = constraint("ab", {{kEndThink, false}, {kCall, true}});
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'q', kCall}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'a'}));
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'a'}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'b'}));
  EXPECT_FALSE(c.advance(std::vector<int32_t>{kCall}).ok()) << "the reasoning is over";
}

TEST(Constraint, AnEndThatIsContentIsTheFirstOfTheOutput) {
  Constraint c = constraint("xb", {{kEndThink, false}, {kCall, true}});
  ASSERT_TRUE(c.advance(std::vector<int32_t>{'q', kCall}).ok());
  EXPECT_EQ(allowed(c), (std::vector<int32_t>{'b'}));
}

}  // namespace
}  // namespace unspool
