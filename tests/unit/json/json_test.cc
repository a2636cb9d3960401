#include "json/json.h"

#include <gtest/gtest.h>

#include <string>

namespace unspool {
namespace {

JsonDocument parse(std::string_view text) {
  auto document = JsonDocument::parse(text);
  EXPECT_TRUE(document.ok()) << text;
  return std::move(document).value();
}

TEST(Json, TypesAndAccess) {
  const JsonDocument document =
      parse(R"({"n":null,"t":true,"i":-3,"u":18446744073709551615,"d":1.5,"s":"h\u00e9\n","a":[1,2],"o":{}})");
  const JsonValue root = document.root();
  EXPECT_EQ(root.type(), JsonType::kObject);
  EXPECT_EQ(root.size(), 8u);
  EXPECT_TRUE(root["n"].is_null());
  EXPECT_TRUE(root.find("n").has_value());
  EXPECT_FALSE(root.find("absent").has_value());
  EXPECT_TRUE(root["absent"]["deeper"].is_null());
  EXPECT_EQ(root["t"].as_bool(), true);
  EXPECT_EQ(root["i"].as_int64(), -3);
  EXPECT_EQ(root["i"].as_double(), -3.0);
  EXPECT_EQ(root["u"].type(), JsonType::kUnsigned);
  EXPECT_EQ(root["u"].as_int64(), std::nullopt);
  EXPECT_EQ(root["u"].as_double(), 18446744073709551615.0);
  EXPECT_EQ(root["d"].as_double(), 1.5);
  EXPECT_EQ(root["d"].as_int64(), std::nullopt);
  EXPECT_EQ(root["s"].as_string(), "h\xC3\xA9\n");
  EXPECT_EQ(root["t"].as_int64(), std::nullopt);
  EXPECT_EQ(root["a"].elements().size(), 2u);
  EXPECT_EQ(root["a"].as_int64_array(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(root["o"].size(), 0u);
  EXPECT_TRUE(root["o"].is_object());
}

TEST(Json, MembersKeepFileOrderAndFindTakesTheLast) {
  const JsonDocument document = parse(R"({"b":1,"a":2,"b":3})");
  std::string order;
  for (const auto& [key, value] : document.root().members()) order += std::string(key) + value.dump();
  EXPECT_EQ(order, "b1a2b3");
  EXPECT_EQ(document.root()["b"].as_int64(), 3);
}

TEST(Json, Int64ArrayRefusesOtherElements) {
  EXPECT_EQ(parse("[1,2.0]").root().as_int64_array(), std::nullopt);
  EXPECT_EQ(parse("[1,true]").root().as_int64_array(), std::nullopt);
  EXPECT_EQ(parse("[18446744073709551615]").root().as_int64_array(), std::nullopt);
  EXPECT_EQ(parse("{}").root().as_int64_array(), std::nullopt);
  EXPECT_EQ(parse("[]").root().as_int64_array(), std::vector<int64_t>{});
}

TEST(Json, DumpIsCompact) {
  EXPECT_EQ(parse(" { \"a\" : [ 1 , 1.0, \"x\\ty\" , null ] } ").root().dump(), R"({"a":[1,1.0,"x\ty",null]})");
  EXPECT_EQ(JsonValue().dump(), "null");
}

TEST(Json, ValueOutlivesTextAndMoveOfDocument) {
  std::string text = R"(["first"])";
  JsonDocument document = parse(text);
  const JsonValue root = document.root();
  text.assign(text.size(), 'x');
  const JsonDocument moved = std::move(document);
  EXPECT_EQ(root.elements()[0].as_string(), "first");
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(JsonDocument::parse(nested(1000)).ok());
  JsonSyntaxError error;
  EXPECT_FALSE(JsonDocument::parse(nested(2000), &error).ok());
  EXPECT_EQ(error.message, "Nesting too deep");
  EXPECT_FALSE(JsonDocument::parse(std::string(3'000'000, '[')).ok());
}

struct Failure {
  std::string text;
  std::string message;
  size_t position;
};

// Expectations are what json.loads of Python 3.11 says.
TEST(Json, SyntaxErrorsAreNamedAsPythonDoes) {
  const Failure failures[] = {
      {"", "Expecting value", 0},
      {" ", "Expecting value", 1},
      {"{", "Expecting property name enclosed in double quotes", 1},
      {R"({"a")", "Expecting ':' delimiter", 4},
      {R"({"a":)", "Expecting value", 5},
      {R"({"a":1)", "Expecting ',' delimiter", 6},
      {R"({"a":1,)", "Expecting property name enclosed in double quotes", 7},
      {R"({"a":1,})", "Expecting property name enclosed in double quotes", 7},
      {"{,}", "Expecting property name enclosed in double quotes", 1},
      {"{a}", "Expecting property name enclosed in double quotes", 1},
      {R"({"a" 1})", "Expecting ':' delimiter", 5},
      {R"({"a":1 "b"})", "Expecting ',' delimiter", 7},
      {R"({"a":nul})", "Expecting value", 5},
      {"[1,]", "Expecting value", 3},
      {"[,1]", "Expecting value", 1},
      {"[1 2]", "Expecting ',' delimiter", 3},
      {"[", "Expecting value", 1},
      {"[1", "Expecting ',' delimiter", 2},
      {"[1}", "Expecting ',' delimiter", 2},
      {"1 2", "Extra data", 2},
      {"01", "Extra data", 1},
      {"1.", "Extra data", 1},
      {"1e", "Extra data", 1},
      {"-", "Expecting value", 0},
      {"+1", "Expecting value", 0},
      {".5", "Expecting value", 0},
      {"nul", "Expecting value", 0},
      {R"("abc)", "Unterminated string starting at", 0},
      {R"(["\)", "Unterminated string starting at", 1},
      {"\"a\n\"", "Invalid control character at", 2},
      {R"("\x")", "Invalid \\escape", 1},
      {R"("\u12")", "Invalid \\uXXXX escape", 2},
      {R"("\u12g4")", "Invalid \\uXXXX escape", 2},
      {R"("\u+123")", "Invalid \\uXXXX escape", 2},
      {R"("\ud800\u00")", "Invalid \\uXXXX escape", 8},
      {std::string("\0", 1), "Expecting value", 0},
      {std::string("[1\0", 3), "Expecting ',' delimiter", 2},
      // Characters, not bytes.
      {"{\"k\":\"\xC3\xA9\xF0\x9F\x98\x80\", x}", "Expecting property name enclosed in double quotes", 11},
      // Here Python is laxer.
      {"[NaN]", "Expecting value", 1},
      {"[-Infinity]", "Expecting value", 1},
      {R"(["\ud800"])", "Invalid \\uXXXX escape", 3},
      {R"(["\udc00"])", "Invalid \\uXXXX escape", 3},
      {"[18446744073709551616, x]", "Expecting value", 23},
      {"[1e999]", "Number out of range", 1},
      {"[\"\xFF\"]", "Invalid UTF-8", 2},
      {"\xC3\xA9\"\xED\xA0\x80\"", "Invalid UTF-8", 2},
  };
  for (const Failure& failure : failures) {
    JsonSyntaxError error;
    const auto result = JsonDocument::parse(failure.text, &error);
    ASSERT_FALSE(result.ok()) << failure.text;
    EXPECT_EQ(error.message, failure.message) << failure.text;
    EXPECT_EQ(error.position, failure.position) << failure.text;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_NE(result.error().message.find(failure.message), std::string::npos);
  }
}

TEST(Json, IntegersBeyond64BitsAreDoubles) {
  const auto document = JsonDocument::parse(
      R"({"1": 1000000000000000019884624838656, "99999999999999999999\" 99999999999999999999": [-9223372036854775809],
          "u": 18446744073709551615, "i": -9223372036854775808, "e": 123456789012345678901e2})");
  ASSERT_TRUE(document.ok()) << document.error().message;
  const JsonValue root = document->root();
  EXPECT_EQ(root["1"].as_double(), 1e30);
  EXPECT_EQ(root["99999999999999999999\" 99999999999999999999"].elements().at(0).as_double(), -9223372036854775809.0);
  EXPECT_EQ(root["u"].dump(), "18446744073709551615");
  EXPECT_EQ(root["i"].as_int64(), INT64_MIN);
  EXPECT_EQ(root["e"].as_double(), 123456789012345678901e2);
  EXPECT_FALSE(JsonDocument::parse("[" + std::string(400, '9') + "]").ok());
}

TEST(Json, AcceptsWhatPythonAccepts) {
  for (const char* text : {"1e-999", "0.0000000000000000000000000001", "-0", "-0.0", "1E5", "\xEF\xBB\xBF[1]", " [ ] ",
                           "\"\\ud83d\\ude00\"", "-9223372036854775808", "{\"\":{}}"}) {
    EXPECT_TRUE(JsonDocument::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace unspool
