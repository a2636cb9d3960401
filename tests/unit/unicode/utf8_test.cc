#include "unicode/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

namespace unspool::unicode {
namespace {

TEST(Utf8, EncodesAndDecodesEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text = "x";
    append(text, c);
    ASSERT_TRUE(is_valid(text)) << static_cast<uint32_t>(c);
    ASSERT_TRUE(decode(text, 1).code_point == c);
    ASSERT_EQ(decode(text, 1).size_bytes, text.size() - 1);
    ASSERT_TRUE(decode_before(text, text.size()).code_point == c);
    ASSERT_EQ(count_characters(text), 2u);
  }
}

// The longest part that could have begun a character becomes one U+FFFD (Unicode 3.9, table 3-8).
TEST(Utf8, ReplacesEachLongestInvalidPart) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"plain \u00e9\u65e5\U0001f680", "plain \u00e9\u65e5\U0001f680"},
      {"\x80", "\ufffd"},
      {"\xc0\xaf", "\ufffd\ufffd"},
      {"\xe0\x80\x80", "\ufffd\ufffd\ufffd"},
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
      {"\xf5", "\ufffd"},
      {"a\xf1\x80\x80\xe1\x80\xc2z", "a\ufffd\ufffd\ufffdz"},
      {"\xf0\x9f\x98", "\ufffd"},
      {"\xe6\x97\xe6\x97\xa5", "\ufffd\u65e5"},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_valid(bytes), text);
    EXPECT_EQ(is_valid(bytes), std::string(bytes) == text);
  }
}

TEST(Utf8, FindsAnIncompleteEnd) {
  EXPECT_EQ(incomplete_suffix(""), 0u);
  EXPECT_EQ(incomplete_suffix("abc"), 0u);
  EXPECT_EQ(incomplete_suffix("\xe6\x97\xa5"), 0u);
  EXPECT_EQ(incomplete_suffix("a\xc3"), 1u);
  EXPECT_EQ(incomplete_suffix("a\xe6\x97"), 2u);
  EXPECT_EQ(incomplete_suffix("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(incomplete_suffix("\xf0\x9f\x98\x80"), 0u);
  EXPECT_EQ(incomplete_suffix("\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_suffix("\xc0"), 0u);      // begins nothing
  EXPECT_EQ(incomplete_suffix("\xed\xa0"), 0u);  // a surrogate can never become valid
  EXPECT_EQ(incomplete_suffix("\xf0\xf0\x9f"), 2u);
}

}  // namespace
}  // namespace unspool::unicode
