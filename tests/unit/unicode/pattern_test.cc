#include "unicode/pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace unspool::unicode {
namespace {

using Spans = std::vector<Span>;

Spans spans_of(const Pattern& pattern, std::string_view text) {
  Spans spans;
  pattern.find_matches(text, spans);
  return spans;
}

TEST(Pattern, CoversTheTextInOrder) {
  const auto spaces = Pattern::regex(R"(\s+)").value();
  EXPECT_EQ(spans_of(*spaces, "a  b "), (Spans{{0, 1, false}, {1, 3, true}, {3, 4, false}, {4, 5, true}}));
  EXPECT_EQ(spans_of(*spaces, "ab"), (Spans{{0, 2, false}}));
  EXPECT_TRUE(spans_of(*spaces, "").empty());
}

TEST(Pattern, LiteralIsNoRegularExpression) {
  EXPECT_EQ(spans_of(*Pattern::literal(".*"), "a.*b"), (Spans{{0, 1, false}, {1, 3, true}, {3, 4, false}}));
}

TEST(Pattern, EmptyMatchesSplitWithoutTakingText) {
  EXPECT_EQ(spans_of(*Pattern::literal(""), "a\u00e9"),
            (Spans{{0, 0, true}, {0, 1, false}, {1, 1, true}, {1, 3, false}, {3, 3, true}}));
  // At the end of "xx" an empty match would touch the match before it.
  EXPECT_EQ(spans_of(*Pattern::regex("x*").value(), "axxb"),
            (Spans{{0, 0, true}, {0, 1, false}, {1, 3, true}, {3, 4, false}, {4, 4, true}}));
}

TEST(Pattern, RefusesWhatItCannotMatchFaithfully) {
  for (const char* pattern : {"(", "[a", R"(\p{Nonsense})", R"(\w+)", R"(a\b)", R"([\h])", R"(\C)"}) {
    const auto result = Pattern::regex(pattern);
    ASSERT_FALSE(result.ok()) << pattern;
    EXPECT_NE(result.error().message.find(pattern), std::string::npos) << result.error().message;
  }
  EXPECT_TRUE(Pattern::regex(R"(\\w)").ok());  // a backslash and a w
}

// Backtracks without bound on a text that a client can send; the limits end it, and the text stays whole.
TEST(Pattern, GivesUpOnEndlessBacktracking) {
  const auto pattern = Pattern::regex("(?:a+)+$x").value();
  const std::string text(64, 'a');
  EXPECT_EQ(spans_of(*pattern, text), (Spans{{0, 64, false}}));
}

TEST(Pattern, MatchesLongPieces) {
  const std::string megabyte(1 << 20, 'a');
  EXPECT_EQ(spans_of(*Pattern::regex(R"([\p{L}\p{M}]+)").value(), megabyte), (Spans{{0, megabyte.size(), true}}));
  EXPECT_EQ(spans_of(*Pattern::regex(R"(\p{N})").value(), megabyte + "1"),
            (Spans{{0, megabyte.size(), false}, {megabyte.size(), megabyte.size() + 1, true}}));
  // A group keeps a place to return to for each character: more than machine code has stack for.
  const std::string long_text(1 << 16, 'a');
  EXPECT_EQ(spans_of(*Pattern::regex(R"((?:\p{L}|\p{N})+)").value(), long_text), (Spans{{0, long_text.size(), true}}));
}

}  // namespace
}  // namespace unspool::unicode
