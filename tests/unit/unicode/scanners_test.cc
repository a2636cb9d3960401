#include "unicode/scanners.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "unicode/categories.h"
#include "unicode/pattern.h"
#include "unicode/utf8.h"

namespace unspool::unicode {
namespace {

std::vector<std::string> pieces(std::string_view pattern, std::string_view text) {
  std::vector<Span> spans;
  Pattern::regex(std::string(pattern)).value()->find_matches(text, spans);
  std::vector<std::string> result;
  for (const Span& span : spans) {
    EXPECT_TRUE(span.is_match);
    result.emplace_back(text.substr(span.begin, span.end - span.begin));
  }
  return result;
}

using Pieces = std::vector<std::string>;

TEST(Scanners, Gpt2) {
  EXPECT_EQ(pieces(kGpt2Pattern, "I'll pay 1234 dollars!?  OK"),
            (Pieces{"I", "'ll", " pay", " 1234", " dollars", "!?", " ", " OK"}));
  EXPECT_EQ(pieces(kGpt2Pattern, "it'S \n\n x\t"), (Pieces{"it", "'", "S", " \n\n", " x", "\t"}));
  EXPECT_EQ(pieces(kGpt2Pattern, "\u00a0x \u00a0"), (Pieces{"\u00a0", "x", " \u00a0"}));
}

TEST(Scanners, Llama3) {
  EXPECT_EQ(pieces(kLlama3Pattern, "It'S 12345 (ok)\n\n  x"),
            (Pieces{"It", "'S", " ", "123", "45", " (", "ok", ")\n\n", " ", " x"}));
  EXPECT_EQ(pieces(kLlama3Pattern, "a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(pieces(kLlama3Pattern, "'\u017fx"), (Pieces{"'\u017f", "x"}));  // the long s folds to s
}

TEST(Scanners, Qwen2) {
  EXPECT_EQ(pieces(kQwen2Pattern, "x=12\r\n  "), (Pieces{"x", "=", "1", "2", "\r\n", "  "}));
  EXPECT_EQ(pieces(kQwen2Pattern, "$abc\tdef"), (Pieces{"$abc", "\tdef"}));
}

// Random text over everything a pattern tells apart. Code points that PCRE2's older tables class otherwise are left
// out.
class RandomText {
 public:
  explicit RandomText(uint32_t seed) : dice_(seed) {
    for (const char* pattern : {R"(\p{L})", R"(\p{N})", R"(\s)"}) classes_.push_back(Pattern::regex(pattern).value());
  }

  std::string next() {
    static constexpr std::u32string_view kFrequent =
        U"''''    \n\r\tstremvldSTREMVLD\u017fa0123\u00e9\u00a0\u2003\u0301.!\u65e5";
    std::string text;
    const size_t length = dice_() % 24;
    while (count_characters(text) < length) {
      char32_t c = kFrequent[dice_() % kFrequent.size()];
      if (dice_() % 4 == 0) c = dice_() % 0x3000;
      if (dice_() % 16 == 0) c = dice_() % 0x110000;
      if ((c < 0xD800 || c > 0xDFFF) && agrees(c)) append(text, c);
    }
    return text;
  }

 private:
  bool agrees(char32_t c) const {
    std::string text;
    append(text, c);
    uint8_t found = 0;
    for (size_t i = 0; i < classes_.size(); ++i) {
      std::vector<Span> spans;
      classes_[i]->find_matches(text, spans);
      if (spans[0].is_match) found |= std::array{kLetter, kNumber, kSpace}[i];
    }
    return found == (properties(c) & (kLetter | kNumber | kSpace));
  }

  std::mt19937 dice_;
  std::vector<std::shared_ptr<const Pattern>> classes_;
};

TEST(Scanners, EqualTheRegularExpressions) {
  constexpr int kTexts = 20'000;
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}) {
    const auto scanner = Pattern::regex(std::string(pattern)).value();
    const auto regex = Pattern::regex(std::string(pattern), false).value();
    RandomText texts(7);
    for (int i = 0; i < kTexts; ++i) {
      const std::string text = texts.next();
      std::vector<Span> scanned;
      std::vector<Span> matched;
      scanner->find_matches(text, scanned);
      regex->find_matches(text, matched);
      ASSERT_EQ(scanned, matched) << pattern << " on " << testing::PrintToString(text);
    }
  }
}

TEST(Scanners, AreFoundByExactPattern) {
  EXPECT_NE(find_scanner(kQwen2Pattern), nullptr);
  EXPECT_EQ(find_scanner(std::string(kQwen2Pattern) + " "), nullptr);
}

}  // namespace

// For the failure messages of ASSERT_EQ.
void PrintTo(const Span& span, std::ostream* out) {
  *out << "[" << span.begin << ", " << span.end << (span.is_match ? ")" : ") unmatched");
}

}  // namespace unspool::unicode
