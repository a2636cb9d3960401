#include "chat/python_json.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "chat/json_progress.h"
#include "chat/json_reformatter.h"
#include "json/syntax_error.h"

namespace unspool::chat {
namespace {

// json.dumps(json.loads(text), ensure_ascii=False).
std::string again(std::string_view text) {
  const auto value = parse_python_json(text);
  return value ? dump_python_json(*value) : "refused";
}

std::string reformatted(std::string_view text) {
  JsonReformatter reformatter;
  std::string out;
  for (const char c : text) reformatter.push(c, out);
  reformatter.finish(out);
  return out;
}

bool is_complete(std::string_view text) {
  JsonProgress progress;
  for (const char c : text) progress.push(c);
  return progress.complete();
}

struct Pair {
  std::string_view text;
  std::string_view dumped;
};

// What Python 3.11 prints.
constexpr Pair kTexts[] = {
    {"{}", "{}"},
    {"[]", "[]"},
    {" \t\r\n1 ", "1"},
    {R"({"a":1,"b":[true,false,null]})", R"({"a": 1, "b": [true, false, null]})"},
    {R"({"é":"你好 🙂"})", R"({"é": "你好 🙂"})"},
    {R"("\u00e9\ud83d\ude42\/\u0041")", R"("é🙂/A")"},
    {R"("\"\\\b\f\n\r\t\u0001")", R"("\"\\\b\f\n\r\t\u0001")"},
    {R"("\ud83d x")", R"("\ud83d x")"},
    {R"("\ude42\ud83d\ud83d\ude42")", R"("\ude42\ud83d🙂")"},
    {R"("\ud83d\n")", R"("\ud83d\n")"},
    {"-0", "0"},
    {"-0.0", "-0.0"},
    {"1.50", "1.5"},
    {"1E3", "1000.0"},
    {"1e-7", "1e-07"},
    {"1e999", "Infinity"},
    {"1e-999", "0.0"},
    {"100000000000000000000.0", "1e+20"},
    {"12345678901234567890123", "12345678901234567890123"},
    {"[NaN, Infinity, -Infinity]", "[NaN, Infinity, -Infinity]"},
};

constexpr std::string_view kRefused[] = {
    "",     " ",        "{",         "}",           "[1,]",
    "[,1]", R"({"a"})", R"({"a":})", R"({"a":1,})", R"({a:1})",
    "01",   "1.",       ".5",        "+1",          "1e",
    "-",    "--1",      "nul",       "nan",         "tru e",
    "\"a",  "\"\n\"",   R"("\x41")", R"("\u12")",   R"("\ud83d\u12")",
    "[1]2", "1 2",      "'a'",       "-NaN",        "Inf",
};

TEST(PythonJson, WritesWhatPythonWrites) {
  for (const auto& [text, dumped] : kTexts) EXPECT_EQ(again(text), dumped) << text;
}

TEST(PythonJson, RefusesWhatPythonRefuses) {
  for (const std::string_view text : kRefused) EXPECT_EQ(again(text), "refused") << text;
}

TEST(PythonJson, OfTwoMembersOfOneNameTheLastCountsInTheFirstOnesPlace) {
  EXPECT_EQ(again(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
}

TEST(PythonJson, IntegersStayExactUpToPythonsLimit) {
  const std::string digits(4300, '7');
  EXPECT_EQ(again(digits), digits);
  EXPECT_EQ(again("-" + digits), "-" + digits);
  EXPECT_EQ(again(digits + "7"), "refused");
}

TEST(PythonJson, ValuesInFrontOfOtherText) {
  const auto decoded = decode_python_json(R"({"a": [1, 2]} and more)");
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->size, 13u);
  EXPECT_EQ(decode_python_json("1.x")->size, 1u);
  EXPECT_EQ(decode_python_json("1ex")->size, 1u);
  EXPECT_FALSE(decode_python_json(" 1"));
}

TEST(PythonJson, DeepNestingIsRefusedAndCostsNoStack) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(again(nested(kMaxJsonDepth)), nested(kMaxJsonDepth));
  EXPECT_EQ(again(nested(kMaxJsonDepth + 1)), "refused");
  EXPECT_EQ(again(std::string(1'000'000, '[')), "refused");
  EXPECT_FALSE(is_complete(nested(kMaxJsonDepth + 1)));
  EXPECT_TRUE(is_complete(nested(kMaxJsonDepth)));
}

TEST(JsonProgress, KnowsWhatIsCompleteAtEveryByte) {
  for (const auto& [text, dumped] : kTexts) {
    for (size_t size = 0; size <= text.size(); ++size) {
      EXPECT_EQ(is_complete(text.substr(0, size)), parse_python_json(text.substr(0, size)).has_value())
          << text.substr(0, size);
    }
  }
  for (const std::string_view text : kRefused) {
    EXPECT_FALSE(is_complete(text)) << text;
  }
}

TEST(JsonReformatter, WritesWhatPythonWrites) {
  for (const auto& [text, dumped] : kTexts) EXPECT_EQ(reformatted(text), dumped) << text;
}

TEST(JsonReformatter, WritesWhatIsCertain) {
  EXPECT_EQ(reformatted(R"({"a" :"x\)"), R"({"a": "x)");
  EXPECT_EQ(reformatted(R"({"a":"\ud83d)"), R"({"a": ")");
  EXPECT_EQ(reformatted(R"({"a":tru)"), R"({"a": )");
  EXPECT_EQ(reformatted(R"({"a":1}x)"), R"({"a": 1})");
}

}  // namespace
}  // namespace unspool::chat
