#include "json/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "json/json.h"

namespace unspool {
namespace {

std::string written(std::string_view text) {
  JsonWriter writer;
  writer.string(text);
  return std::move(writer).str();
}

std::string written(double value) {
  JsonWriter writer;
  writer.number(value);
  return std::move(writer).str();
}

TEST(JsonWriter, PlacesCommas) {
  JsonWriter w;
  w.begin_object();
  w.key("a");
  w.begin_array();
  w.integer(1);
  w.begin_object();
  w.end_object();
  w.boolean(true);
  w.end_array();
  w.key("b");
  w.null();
  w.key("c");
  w.raw("[0,1]");
  w.end_object();
  EXPECT_EQ(w.str(), R"({"a":[1,{},true],"b":null,"c":[0,1]})");
}

TEST(JsonWriter, EscapesAndKeepsUtf8) {
  EXPECT_EQ(written("a\"\\/\b\f\n\r\t\x01\x1f\x7f"), "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
  EXPECT_EQ(written("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

TEST(JsonWriter, ReplacesInvalidUtf8) {
  EXPECT_EQ(written("a\xFF"
                    "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(written("\xC3"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(written("\xC3\""), "\"\xEF\xBF\xBD\\\"\"");
  for (const char* bad : {"\xED\xA0\x80", "\xC0\xAF", "\xF4\x90\x80\x80", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_TRUE(JsonDocument::parse(written(bad)).ok()) << bad;
  }
}

TEST(JsonWriter, FloatsLookLikeFloatsAndRoundTrip) {
  EXPECT_EQ(written(1.0), "1.0");
  EXPECT_EQ(written(-0.0), "-0.0");
  EXPECT_EQ(written(-9999.0), "-9999.0");
  EXPECT_EQ(written(0.1), "0.1");
  for (const double value : {1e22, 1e-5, 123456789.0, 5e-324, std::numeric_limits<double>::max(), -1.0 / 3}) {
    const auto document = JsonDocument::parse(written(value));
    ASSERT_TRUE(document.ok());
    EXPECT_EQ(document->root().type(), JsonType::kDouble);
    EXPECT_EQ(document->root().as_double(), value);
  }
  JsonWriter writer;
  writer.number(0.1f);
  EXPECT_EQ(writer.str(), "0.10000000149011612");
}

TEST(JsonWriter, NonFiniteIsOurFault) {
  JsonWriter writer;
  EXPECT_THROW(writer.number(std::nan("")), CheckFailure);
  EXPECT_THROW(writer.number(-std::numeric_limits<float>::infinity()), CheckFailure);
}

}  // namespace
}  // namespace unspool
