#include "unicode/normalize.h"

#include <gtest/gtest.h>

#include <string>

#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool::unicode {
namespace {

TEST(Normalize, TheFourForms) {
  EXPECT_EQ(normalize("plain", NormalForm::kNfkd), "plain");
  EXPECT_EQ(normalize("re\u0301sume\u0301", NormalForm::kNfc), "r\u00e9sum\u00e9");
  EXPECT_EQ(normalize("r\u00e9sum\u00e9", NormalForm::kNfd), "re\u0301sume\u0301");
  EXPECT_EQ(normalize("\ufb01 \u2460 \uff21", NormalForm::kNfc), "\ufb01 \u2460 \uff21");
  EXPECT_EQ(normalize("\ufb01 \u2460 \uff21", NormalForm::kNfkc), "fi 1 A");
  EXPECT_EQ(normalize("\u1e9b\u0323", NormalForm::kNfkc), "\u1e69");
  EXPECT_EQ(normalize("\u1e9b\u0323", NormalForm::kNfkd), "s\u0323\u0307");
  EXPECT_EQ(normalize("\u1112\u1161\u11ab", NormalForm::kNfc), "\ud55c");
  EXPECT_EQ(normalize("\ud55c", NormalForm::kNfd), "\u1112\u1161\u11ab");
  EXPECT_EQ(normalize("\u1108\u1163\u11a7", NormalForm::kNfc), "\ube98\u11a7");  // no trailing consonant
  EXPECT_EQ(normalize("\u212b", NormalForm::kNfc), "\u00c5");
  EXPECT_EQ(normalize("\u0958", NormalForm::kNfc), "\u0915\u093c");  // a composition exclusion
}

TEST(Normalize, OrdersMarks) {
  EXPECT_EQ(normalize("a\u0301\u0323", NormalForm::kNfd), "a\u0323\u0301");
  EXPECT_EQ(normalize("a\u0301\u0323", NormalForm::kNfc), "\u1ea1\u0301");
  EXPECT_EQ(normalize("\u0301\u0323", NormalForm::kNfc), "\u0323\u0301");
}

// To the tables of the library these are unassigned: starters that nothing composes with.
TEST(Normalize, LeavesNewerCodePointsAlone) {
  ASSERT_TRUE((properties(0x1AC1) & kNewerThanNormalForms) != 0);
  EXPECT_EQ(normalize("a\u1ac1\u0323\u0301", NormalForm::kNfc), "a\u1ac1\u0323\u0301");
  EXPECT_EQ(normalize("\U00011935\U00011930", NormalForm::kNfc), "\U00011935\U00011930");
  EXPECT_EQ(normalize("\U0001fbf5", NormalForm::kNfkc), "\U0001fbf5");
}

// A run of marks out of order takes quadratic time where neighbours change places one by one: hours for this one.
TEST(Normalize, OrdersALongRunOfMarks) {
  constexpr size_t kPairs = 250'000;
  std::string text = "a";
  for (size_t i = 0; i < kPairs; ++i) text += "\u0301\u0323";
  const std::string ordered = normalize(text, NormalForm::kNfd);
  ASSERT_EQ(ordered.size(), text.size());
  EXPECT_EQ(ordered.substr(1 + 2 * (kPairs - 1), 4), "\u0323\u0301");
}

}  // namespace
}  // namespace unspool::unicode
