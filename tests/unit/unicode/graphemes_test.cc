#include "unicode/graphemes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace unspool::unicode {
namespace {

std::vector<std::string> graphemes(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = 0, end = 0; at < text.size(); at = end) {
    end = grapheme_end(text, at);
    all.emplace_back(text.substr(at, end - at));
  }
  return all;
}

using Texts = std::vector<std::string>;

TEST(Graphemes, KeepWhatIsSeenAsOne) {
  EXPECT_EQ(graphemes("ab"), (Texts{"a", "b"}));
  EXPECT_EQ(graphemes("e\u0301\u0323x"), (Texts{"e\u0301\u0323", "x"}));
  EXPECT_EQ(graphemes("\r\n\n"), (Texts{"\r\n", "\n"}));
  EXPECT_EQ(graphemes("\u1100\u1161\u11a8\uac00"), (Texts{"\u1100\u1161\u11a8", "\uac00"}));
  // A family, and two flags.
  EXPECT_EQ(graphemes("\U0001F469\u200d\U0001F467a"), (Texts{"\U0001F469\u200d\U0001F467", "a"}));
  EXPECT_EQ(graphemes("\U0001F1EB\U0001F1F7\U0001F1EF\U0001F1F5"),
            (Texts{"\U0001F1EB\U0001F1F7", "\U0001F1EF\U0001F1F5"}));
  EXPECT_EQ(graphemes(""), Texts{});
}

}  // namespace
}  // namespace unspool::unicode
