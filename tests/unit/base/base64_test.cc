#include "base/base64.h"

#include <gtest/gtest.h>

namespace unspool {
namespace {

// The examples of RFC 4648, and every digit.
TEST(Base64, Encodes) {
  const auto encoded = [](std::string_view text) { return base64_encode(std::as_bytes(std::span(text))); };
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded({"\x00\x10\x83\x10\x51\x87\x20\x92\x8b\xff\xff\xfe", 12}), "ABCDEFGHIJKL///+");
}

TEST(Base64, Decodes) {
  EXPECT_EQ(base64_decode(""), "");
  EXPECT_EQ(base64_decode("Zg=="), "f");
  EXPECT_EQ(base64_decode("Zm8="), "fo");
  EXPECT_EQ(base64_decode("Zm9v"), "foo");
  EXPECT_EQ(base64_decode("Zm9vYg"), "foob");  // without its padding
  EXPECT_EQ(base64_decode("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, RefusesTheRest) {
  for (const char* text : {"Z", "Zm9vY", "Zm 9", "Zm9-", "Z===", "====", "Zg=a", "=Zg="}) {
    EXPECT_EQ(base64_decode(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace unspool
