#include "unicode/categories.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace unspool::unicode {
namespace {

TEST(Categories, OfWellKnownCharacters) {
  for (const char32_t c : std::u32string_view(U"aZ\u00e9\u0416\u65e5\u3042\uac00\U00020000")) {
    EXPECT_TRUE(is_letter(c) && is_word(c) && !is_number(c) && !is_space(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string_view(U"09\u0663\u00bd\u2460\u2167")) {
    EXPECT_TRUE(is_number(c) && is_numeric(c) && !is_letter(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string_view(U" \t\n\v\f\r\u0085\u00a0\u1680\u2003\u2028\u202f\u3000")) {
    EXPECT_TRUE(is_space(c) && !is_word(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string_view(U"\u0301\u0323\u093f\u20dd")) {
    EXPECT_TRUE(is_mark(c) && is_word(c) && !is_letter(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string_view(U"!-'\u200b\ufeff\u2019\U0001f680")) {
    EXPECT_TRUE(!is_letter(c) && !is_number(c) && !is_space(c) && !is_word(c)) << static_cast<uint32_t>(c);
  }
  EXPECT_TRUE(is_word('_') && is_word(0x200D));
  EXPECT_FALSE(is_space(0x180E));
}

TEST(Categories, NothingBeyondUnicode) {
  EXPECT_EQ(properties(0x110000), 0);
  EXPECT_EQ(properties(0xFFFFFFFF), 0);
  EXPECT_EQ(properties(0xD800), 0);
}

}  // namespace
}  // namespace unspool::unicode
